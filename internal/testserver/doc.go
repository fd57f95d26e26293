// Package testserver starts real servers for tests, Redis or Valkey (alone, as a cluster, behind sentinels), memcached and reverse
// proxies, and does to them what happens to servers: it kills, stops and fails them over, and loses what they say.
//
//	redis := testserver.Redis(t)                      // a process of its own, an empty one, gone when t ends
//	store := open(t, "redis://"+redis.Addr())
//	redis.Do(t, "SCRIPT", "FLUSH")                    // a command, behind the store's back
//	redis.Kill()                                      // kill -9
//	redis.Start()                                     // again: same port, folder and configuration
//	redis.Stop()                                      // SIGSTOP: it accepts connections and says nothing
//	redis.Continue()
//
//	wire := testserver.Proxy(t, redis.Addr())         // let the store dial wire.Addr() instead
//	wire.SetLatency(200 * time.Millisecond)
//	wire.DropReplies(1)                               // the next reply is lost; what was asked has been done
//	wire.Restore()
//
//	cluster := testserver.Cluster(t, 3, 1)            // three masters, each with a replica
//	cluster.MigrateSlot(t, testserver.Slot("k"), cluster.Nodes()[1])
//	cluster.KillMaster(t, testserver.Slot("k"))       // returns when a replica has taken over
//
//	guarded := testserver.Sentinel(t)                 // a master, two replicas, three sentinels
//	guarded.Failover(t)
//
//	addr := testserver.FreeAddr(t)
//	testserver.Nginx(t, addr, "server { listen "+addr+"; … }") // or HAProxy, or Caddy: real proxies, by a configuration
//
// The servers come from the packages that scripts/setup installs. A missing one fails the test and names the package; nothing is
// skipped. Every server listens on the loopback interface alone, on a port that no other test has, in this process or another
// one, and keeps the port while it is dead. No server outlives the test, nor the process of the tests, however that ends.
//
// Everything here may be used from parallel tests. What takes a [testing.TB] ends that test when it fails, so it belongs into the
// test's own goroutine; everything else may be called from any goroutine and marks the test that made the server as failed.
package testserver

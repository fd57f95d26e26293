// Package testserver starts real servers for tests: Redis or Valkey (alone, as a
// cluster or with sentinels), memcached and reverse proxies. It injects faults: it
// kills, pauses and fails over servers, and drops their replies.
//
//	redis := testserver.Redis(t)                // a new, empty process that ends with t
//	store := open(t, "redis://"+redis.Addr())
//	redis.Do(t, "SCRIPT", "FLUSH")              // a command the store does not see
//	redis.Kill()                                // kill -9
//	redis.Start()                               // same port, folder and configuration
//	redis.Stop()                                // SIGSTOP: connects, never replies
//	redis.Continue()
//
//	wire := testserver.Proxy(t, redis.Addr())   // the store dials wire.Addr() instead
//	wire.SetLatency(200 * time.Millisecond)
//	wire.DropReplies(1)                         // executes a request, drops its reply
//	wire.Restore()
//
//	cluster := testserver.Cluster(t, 3, 1)      // three masters with one replica each
//	cluster.MigrateSlot(t, testserver.Slot("k"), cluster.Nodes()[1])
//	cluster.KillMaster(t, testserver.Slot("k")) // returns when a replica has taken over
//
//	guarded := testserver.Sentinel(t)           // one master, 2 replicas, 3 sentinels
//	guarded.Failover(t)
//
//	addr := testserver.FreeAddr(t)              // nginx, or HAProxy, or Caddy
//	testserver.Nginx(t, addr, "server { listen "+addr+"; … }")
//
// The servers come from the packages that scripts/setup installs. A missing server
// fails the test with the name of its package; no test is skipped. Every server listens
// only on the loopback interface, on a port that no other test uses, in this process or
// another. It keeps the port while it is dead. A server ends with its test or with the
// test process, however that process ends.
//
// All functions may be used in parallel tests. A function with a [testing.TB] parameter
// ends that test if it fails, so it must be called on the test's goroutine. Other
// methods may be called on any goroutine, and mark the test that created the server as
// failed.
package testserver

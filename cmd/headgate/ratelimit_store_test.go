package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// decides starts the program with variables for a store and checks that it decides and
// that no plain text reaches the store if the variables require TLS.
func decides(t *testing.T, env ...string) {
	t.Helper()
	p := replaceRatelimit(t, append(env, "RUNTIME_ROOT="+rulesRoot(t, "testdata/ratelimit/rules"), "RUNTIME_SUBDIRECTORY=ratelimit")...)
	if got, want := summary(p.mustAsk("another", 1, "key4=v")), "OK | OK 20/DAY left 19"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

// The variables for Redis connect to servers with TLS and passwords, in every form of
// REDIS_URL.
func TestRatelimitRedisVariables(t *testing.T) {
	t.Parallel()
	t.Run("TLS with a URL", func(t *testing.T) {
		t.Parallel()
		s := testserver.Redis(t, testserver.TLS(), testserver.Password("pw"))
		decides(t, "REDIS_URL=redis://:pw@"+s.Addr(), "REDIS_TLS=true", "REDIS_TLS_CACERT="+s.CAFile())
	})
	t.Run("password with a URL", func(t *testing.T) {
		t.Parallel()
		decides(t, "REDIS_URL=redis://"+testserver.Redis(t, testserver.Password("pw")).Addr(), "REDIS_AUTH=pw")
	})
	t.Run("another name in the certificate", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		testserver.NewAuthority(t).Write(dir, 2, "other.example")
		s := testserver.Redis(t, testserver.TLS(), testserver.WithConfig("tls-cert-file", dir+"/tls.crt", "tls-key-file", dir+"/tls.key"))
		env := []string{"REDIS_URL=" + s.Addr(), "REDIS_TLS=true", "REDIS_TLS_CACERT=" + dir + "/ca.crt"}
		decides(t, append(env, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true")...)
		root := "RUNTIME_ROOT=" + rulesRoot(t, "testdata/ratelimit/rules")
		for _, wrong := range [][]string{env, {env[0], env[1], "REDIS_TLS_CACERT=" + s.CAFile(), "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"}} {
			p := replaceWithoutStore(t, append(wrong, root, "RUNTIME_SUBDIRECTORY=ratelimit")...)
			if resp, err := p.ask("another", 1, "key4=v"); err == nil {
				t.Errorf("%v: an untrusted certificate is accepted: %v", wrong, summary(resp))
			}
		}
	})
	t.Run("TLS with a cluster", func(t *testing.T) {
		t.Parallel()
		s := testserver.Cluster(t, 3, 0, testserver.TLS(), testserver.Password("pw"))
		urls := "redis://:pw@" + strings.Join(s.Addrs(), ",redis://:pw@")
		decides(t, "REDIS_TYPE=cluster", "REDIS_URL="+urls, "REDIS_TLS=true", "REDIS_TLS_CACERT="+s.Nodes()[0].CAFile())
	})
	t.Run("TLS and passwords with sentinels", func(t *testing.T) {
		t.Parallel()
		s := testserver.Sentinel(t, testserver.TLS(), testserver.Password("pw"))
		for _, sentinel := range s.Sentinels() {
			sentinel.Do(t, "ACL", "SETUSER", "default", "resetpass", ">sentinels")
		}
		decides(t, "REDIS_TYPE=sentinel", "REDIS_URL="+s.MasterName()+","+strings.Join(s.Addrs(), ","), "REDIS_AUTH=pw",
			"REDIS_SENTINEL_AUTH=sentinels", "REDIS_TLS=true", "REDIS_TLS_CACERT="+filepath.Dir(s.Nodes()[0].CAFile())+"/ca.crt")
	})
}

// With REDIS_TLS, a server without TLS receives a TLS handshake, and no password.
func TestRatelimitSendsNoPlainText(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback port
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := replaceWithoutStore(t, "REDIS_URL=redis://:password123@"+ln.Addr().String(), "REDIS_TLS=true", "HEADGATE_STORE_BUDGET=1ms",
		"RUNTIME_ROOT="+rulesRoot(t, "testdata/ratelimit/rules"), "RUNTIME_SUBDIRECTORY=ratelimit")
	if _, err := p.ask("another", 1, "key4=v"); err == nil {
		t.Error("a decision without a store")
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	first := make([]byte, 1)
	if _, err := conn.Read(first); err != nil || first[0] != 0x16 {
		t.Errorf("the first byte is %#x, error %v; want 0x16, a TLS handshake", first[0], err)
	}
	if strings.Contains(p.text(), "password123") {
		t.Errorf("the log contains the password:\n%s", p.text())
	}
}

// Deployments with different prefixes share no counters.
func TestRatelimitKeyPrefix(t *testing.T) {
	t.Parallel()
	redis := "REDIS_URL=" + testserver.Redis(t).Addr()
	decides(t, redis, "CACHE_KEY_PREFIX=east:")
	decides(t, redis, "CACHE_KEY_PREFIX=west:")
	decides(t, redis)
	memcached := []string{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + testserver.Memcached(t).Addr()}
	decides(t, append(memcached, "CACHE_KEY_PREFIX=east:")...)
	decides(t, append(memcached, "CACHE_KEY_PREFIX=west:")...)
}

// A store that is not supported stops the start.
func TestRatelimitRefusesStore(t *testing.T) {
	t.Parallel()
	p := startRatelimit(t, "RUNTIME_ROOT=/data", "BACKEND_TYPE=memcache", "MEMCACHE_SRV=_memcache._tcp.example.com")
	for p.lines.Scan() {
		p.write(p.lines.Text())
	}
	if err := p.cmd.Wait(); err == nil || !strings.Contains(p.text(), "MEMCACHE_SRV") {
		t.Errorf("got status %v, log %s; want an error about MEMCACHE_SRV", err, p.text())
	}
}

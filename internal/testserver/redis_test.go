package testserver_test

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

func TestRedisRestartsEmptyOnSamePort(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	addr, pid := s.Addr(), s.Pid()
	s.Do(t, "SET", "k", "v")
	s.Kill()
	s.Kill()
	if _, err := s.Try("GET", "k"); err == nil {
		t.Error("GET after Kill: got no error want one")
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("dial after Kill: got no error want it refused")
	}
	s.Start()
	again := s.Pid()
	s.Start()
	if s.Pid() != again {
		t.Errorf("Start of a server that runs: got process %d want %d still", s.Pid(), again)
	}
	if got := s.Do(t, "GET", "k").String(); got != "(nil)" || s.Addr() != addr || s.Pid() == pid {
		t.Errorf("after Start: GET got %q at %s, process %d want (nil) at %s, not process %d", got, s.Addr(), s.Pid(), addr, pid)
	}
}

func TestRedisKeepsSyncedData(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, testserver.AppendFsyncAlways())
	if got := s.Do(t, "CONFIG", "GET", "appendfsync").String(); got != "appendfsync\nalways" {
		t.Errorf("appendfsync: got %q want always", got)
	}
	s.Do(t, "SET", "k", "v")
	s.Kill()
	s.Start()
	if got := s.Do(t, "GET", "k").String(); got != "v" {
		t.Errorf("GET after kill -9 and restart: got %q want v", got)
	}
}

func TestPausedRedisRepliesAfterResume(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	s.Stop()
	answered := make(chan error, 1)
	go func() {
		_, err := s.Try("PING")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("PING of a stopped server: got an answer, error %v want none", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.Continue()
	if err := <-answered; err != nil {
		t.Errorf("PING after Continue: got %v want no error", err)
	}
}

func TestRedisOptions(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, testserver.Password("to p\"s"), testserver.ACL("app", "secret", "~hg:*", "+get", "+set"),
		testserver.WithConfig("maxmemory", "10mb", "maxmemory-policy", "allkeys-lru"))
	if got := s.Do(t, "CONFIG", "GET", "maxmemory").Items[1].Int(); got != 10<<20 {
		t.Errorf("maxmemory: got %d want 10 MB", got)
	}
	if got := s.Do(t, "CONFIG", "GET", "maxmemory-policy").String(); got != "maxmemory-policy\nallkeys-lru" {
		t.Errorf("maxmemory-policy: got %q want allkeys-lru", got)
	}
	if got := s.Do(t, "ACL", "DRYRUN", "app", "GET", "other").String(); !strings.Contains(got, "no permissions") {
		t.Errorf("a key that is not app's: got %q want a refusal", got)
	}
	if got := s.Do(t, "ACL", "DRYRUN", "app", "GET", "hg:k").String(); got != "OK" {
		t.Errorf("a key of app's: got %q want OK", got)
	}
	var refused testserver.ServerError
	if _, err := s.Try("NONSENSE"); !errors.As(err, &refused) || !strings.HasPrefix(refused.Error(), "ERR unknown command") {
		t.Errorf("an unknown command: got %v want an error of the server", err)
	}
}

func TestRedisTLS(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, testserver.TLS())
	conn, err := tls.Dial("tcp", s.Addr(), s.TLSConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reply := make([]byte, 7)
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(reply); err != nil || string(reply) != "+PONG\r\n" {
		t.Errorf("PING: got %q, %v want PONG", reply, err)
	}
	if _, err := tls.Dial("tcp", s.Addr(), &tls.Config{}); err == nil {
		t.Error("a client that does not trust the authority: got no error want one")
	}
	if text, err := os.ReadFile(s.CAFile()); err != nil || !strings.HasPrefix(string(text), "-----BEGIN CERTIFICATE") {
		t.Errorf("the authority's file: got %q, %v want a certificate in PEM", text, err)
	}
}

// Clients, replicas, cluster nodes that migrate keys, and sentinels trust the same
// authority.
func TestTLSBetweenServers(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := testserver.Cluster(t, 2, 1, testserver.TLS())
		slot := testserver.Slot("k")
		to := c.MasterOf(t, (slot+8192)%16384)
		c.MasterOf(t, slot).Do(t, "SET", "k", "v")
		c.MigrateSlot(t, slot, to)
		if got := to.Do(t, "GET", "k").String(); got != "v" {
			t.Errorf("GET k after its slot moved: got %q want v", got)
		}
		if _, err := tls.Dial("tcp", c.Nodes()[0].Addr(), c.Nodes()[1].TLSConfig()); err != nil {
			t.Error(err)
		}
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := testserver.Sentinel(t, testserver.TLS())
		if _, err := tls.Dial("tcp", s.Addrs()[0], s.Master(t).TLSConfig()); err != nil {
			t.Error(err)
		}
	})
}

func TestValkey(t *testing.T) {
	t.Parallel()
	if !testserver.ValkeyPresent() {
		t.Log("no valkey-server here")
		return
	}
	if got := testserver.Redis(t, testserver.Valkey()).Do(t, "INFO", "server").String(); !strings.Contains(got, "valkey_version") {
		t.Errorf("INFO: got %q want a valkey_version", got)
	}
}

func TestServersUseDifferentPorts(t *testing.T) {
	t.Parallel()
	const many = 12
	servers := make([]*testserver.RedisServer, many)
	var all sync.WaitGroup
	for i := range servers {
		all.Go(func() { servers[i] = testserver.Redis(t) })
	}
	all.Wait()
	seen := make(map[string]bool)
	for _, s := range servers {
		seen[s.Addr()] = true
		if got := s.Do(t, "CONFIG", "GET", "port").Items[1].String(); got != s.Port() {
			t.Errorf("port: got %s want %s", got, s.Port())
		}
	}
	if len(seen) != many {
		t.Errorf("addresses of %d servers: got %d want one each", many, len(seen))
	}
}

package memcachedstore

import (
	"cmp"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
)

// testInstant is 2026-01-01: the instant at which tests begin.
const testInstant = headgate.Instant(1_767_225_600_000_000)

// newTappedStore creates a store that calls before with the verb and the key of each
// request before it is sent.
func newTappedStore(t *testing.T, opts *Options, server string, before func(verb, name string)) *Store {
	t.Helper()
	s := mustNew(t, opts, server)
	tapAll(s, before)
	return s
}

// tapAll does the same for a store that has not been used yet.
func tapAll(s *Store, before func(verb, name string)) {
	s.client.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		return &tap{conn, before}, err
	}
}

type tap struct {
	net.Conn
	before func(verb, name string)
}

func (c *tap) Write(b []byte) (int, error) {
	if words := strings.Fields(string(b)); len(words) > 1 {
		c.before(words[0], words[1])
	}
	return c.Conn.Write(b)
}

// mustNew creates a store that is closed with the test. The default Timeout is
// longTimeout.
func mustNew(t *testing.T, opts *Options, servers ...string) *Store {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Timeout = cmp.Or(o.Timeout, longTimeout)
	s, err := New(&o, servers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustBind(t *testing.T, s *Store, scope string, a headgate.Algorithm, limit string) *bound {
	t.Helper()
	b, err := s.Bind(headgate.Rule{Scope: scope, Name: scope, Limit: headgate.MustParseLimit(limit), Algorithm: a})
	if err != nil {
		t.Fatal(err)
	}
	return b.(*bound)
}

func mustTake(t *testing.T, b *bound, at headgate.Instant, key string, cost int64) headgate.Decision {
	t.Helper()
	d, err := b.Apply(t.Context(), at, key, headgate.Take, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func remaining(t *testing.T, b *bound, at headgate.Instant, key string) int64 {
	t.Helper()
	d, err := b.Apply(t.Context(), at, key, headgate.Peek, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// once returns a function that calls f on its first call only; other calls do not wait
// for f.
func once(f func()) func() {
	var mu sync.Mutex
	done := false
	return func() {
		mu.Lock()
		first := !done
		done = true
		mu.Unlock()
		if first {
			f()
		}
	}
}

// newClient returns a client for changes without the store's knowledge.
func newClient(t *testing.T, server string) *memcache.Client {
	c := memcache.New(server)
	c.Timeout = 10 * time.Second
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// eventually fails the test unless a condition becomes true.
func eventually(t *testing.T, true func() bool, want string) {
	t.Helper()
	for deadline := time.Now().Add(longTimeout); !true(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: want %s", longTimeout, want)
		}
	}
}

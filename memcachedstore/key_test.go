package memcachedstore

import (
	"strings"
	"testing"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate/internal/testserver"
)

// T11: different parts have different names.
func TestKeyNameUnique(t *testing.T) {
	t.Parallel()
	seen := make(map[string][]string)
	for _, parts := range [][]string{
		{"n", "a", "s", "k"},
		{"n", "a", "sk", ""},
		{"na", "", "s", "k"},
		{"n", "as", "", "k"},
		{"", "na", "s", "k"},
		{"n", "a", "a:b", "c"},
		{"n", "a", "a", "b:c"},
		{"n", "a", "a", ":b:c"},
		{"n", "a", "", "sk"},
		{"", "", "", "nask"},
		{"n", "a", "s\x01k", ""},
		{"n", "a", "s", "\x01k"},
		{"n", "a", "s", "K"},
		{"n", "a", "s", "k "},
		{"n", "a", "s", "k\x00"},
		{"n", "a", "s", strings.Repeat("k", 64<<10)},
		{"n", "a", "s", strings.Repeat("k", 64<<10-1)},
	} {
		s := newScope(parts[0], parts[1], parts[2])
		name := s.digest(parts[3]).name()
		if other, found := seen[name]; found {
			t.Errorf("%q and %q have the same name", parts, other)
		}
		if seen[name] = parts; len(name) != 25 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%.40q: the name %q is not 25 printable bytes", parts, name)
		}
	}
}

// All processes, and the next version, must compute the same names.
func TestKeyNameFormat(t *testing.T) {
	t.Parallel()
	s := newScope("default", "token_bucket", "policy:0:api")
	if got, want := s.digest("user 7").name(), "hg:LCl8eost-vduoQmlpDfV5w"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

func FuzzKeyName(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Fuzz(func(t *testing.T, scope1, key1, scope2, key2 string) {
		one, two := newScope("n", "a", scope1), newScope("n", "a", scope2)
		if same := one.digest(key1) == two.digest(key2); same != (scope1 == scope2 && key1 == key2) {
			t.Errorf("(%q, %q) and (%q, %q): same digest is %v", scope1, key1, scope2, key2, same)
		}
	})
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	left := func(namespace string) int64 {
		b := mustBind(t, mustNew(t, &Options{Namespace: namespace}, server.Addr()), "rule", "", "10/1h")
		return mustTake(t, b, testInstant, "key", 1).Remaining
	}
	for i, c := range []struct {
		namespace string
		want      int64
	}{{"", 9}, {"default", 8}, {"other", 9}, {"other ", 9}, {"other", 8}} {
		if got := left(c.namespace); got != c.want {
			t.Errorf("step %d, namespace %q: got %d remaining want %d", i+1, c.namespace, got, c.want)
		}
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"localhost:11212":   "tcp localhost:11212",
		"localhost":         "tcp localhost:11211",
		"10.0.0.1":          "tcp 10.0.0.1:11211",
		"[::1]:11212":       "tcp [::1]:11212",
		"[::1]":             "tcp [::1]:11211",
		"::1":               "tcp [::1]:11211",
		"/run/memcached.so": "unix /run/memcached.so",
	} {
		if a, err := parseServer(text); err != nil || a.network+" "+a.text != want {
			t.Errorf("%q: got %s %s, error %v want %s", text, a.network, a.text, err, want)
		}
	}
	for _, text := range []string{"", ":11211", "a:b:c", "localhost:", "localhost:0", "localhost:65536", "localhost:x", "a b:1", "user@host:1"} {
		if _, err := New(nil, text); err == nil {
			t.Errorf("%q: got no error want one", text)
		}
	}
	if _, err := New(nil); err == nil {
		t.Error("no servers: got no error want one")
	}
	if _, err := NewFromClient(nil, nil); err == nil {
		t.Error("no client: got no error want one")
	}
}

// A store finds the keys of another store, and of a client with gomemcache's own server
// list.
func TestPickServerMatchesGomemcache(t *testing.T) {
	t.Parallel()
	list, err := parseServers([]string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"})
	if err != nil {
		t.Fatal(err)
	}
	var theirs memcache.ServerList
	if err := theirs.SetServers("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"); err != nil {
		t.Fatal(err)
	}
	s := newScope("", "", "")
	for i := range 100 {
		name := s.digest(strings.Repeat("k", i)).name()
		ours, _ := list.PickServer(name)
		other, _ := theirs.PickServer(name)
		if ours.String() != other.String() {
			t.Errorf("%s: got %s want %s", name, ours, other)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Namespace: strings.Repeat("n", 65)}, {Timeout: -1}, {MaxTries: -1}, {MaxWaiting: -1}, {MaxConns: -1}} {
		if _, err := New(&o, "localhost"); err == nil || !strings.Contains(err.Error(), "must be") {
			t.Errorf("%+v: got error %v want one with the accepted values", o, err)
		}
	}
}

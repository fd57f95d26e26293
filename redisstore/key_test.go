package redisstore

import (
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
)

func redisKeyOf(namespace, scope, key string) string {
	n := newKeyNames(&Options{Namespace: namespace}, headgate.TokenBucket, scope)
	return n.redisKey(key)
}

// A version with another key format would lose all usage.
func TestRedisKeyFormat(t *testing.T) {
	for _, tt := range []struct{ namespace, scope, key, want string }{
		{"default", "policy:0:api", "203.0.113.9", "hg:{NAME}:default:tb:policy%3A0%3Aapi:203.0.113.9"},
		{"shop", "limit:0:10/s", "user:7", "hg:{NAME}:shop:tb:limit%3A0%3A10/s:user:7"},
		{"shop", "policy:0:api", "", "hg:{NAME}:shop:tb:policy%3A0%3Aapi:"},
		{"a b", "policy:0:é", "}{", "hg:{NAME}:a%20b:tb:policy%3A0%3A%C3%A9:%7D%7B"},
	} {
		got := redisKeyOf(tt.namespace, tt.scope, tt.key)
		if want := strings.Replace(tt.want, "NAME", string(appendHash(nil, tt.namespace, tt.key)), 1); got != want {
			t.Errorf("name of %q, %q, %q: got %s want %s", tt.namespace, tt.scope, tt.key, got, want)
		}
	}
	if got, want := string(appendHash(nil, "default", "203.0.113.9")), "qeWbPxWLTAGoL8Ql3VW5bw"; got != want {
		t.Errorf("tag: got %s want %s", got, want)
	}
}

// T10: the tag does not depend on braces in a user's text; T13: the length is bounded.
func TestRedisKeyHostileInput(t *testing.T) {
	long := strings.Repeat("x", 1<<10)
	for _, key := range []string{"", "}", "}{", "a}b", "{", "{}", strings.Repeat("{", 1<<10), strings.Repeat("}", 1<<10), "\x00", "\xff\xfe", long, long + "y"} {
		for _, scope := range []string{"policy:0:a", "policy:0:" + strings.Repeat("}", 256)} {
			name := redisKeyOf("default", scope, key)
			if len(name) > 220 || strings.Count(name, "{") != 1 || strings.Count(name, "}") != 1 {
				t.Errorf("name of %.20q: got %q (%d bytes) want one tag and at most 220 bytes", key, name, len(name))
			}
			if got, want := testserver.Slot(name), testserver.Slot(redisKeyOf("default", "another", key)); got != want {
				t.Errorf("slot of %.20q: got %d want %d, as under any other policy", key, got, want)
			}
		}
	}
	if redisKeyOf("default", "s", long) == redisKeyOf("default", "s", long+"y") {
		t.Error("two long keys have one name")
	}
}

// T9.
func TestGroupSharesSlot(t *testing.T) {
	user := func(key string) string { return strings.Join(strings.Split(key, ":")[:2], ":") }
	n := newKeyNames(&Options{Namespace: "default", Group: user}, headgate.TokenBucket, "s")
	read, write, other := n.redisKey("user:7:read"), n.redisKey("user:7:write"), n.redisKey("user:8:read")
	if read == write || testserver.Slot(read) != testserver.Slot(write) || tagOf(read) == tagOf(other) {
		t.Errorf("names of a group: got %s and %s, and of another %s", read, write, other)
	}
}

// T11: different parts have different Redis keys.
func FuzzRedisKeyUnique(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("", "a", "a", "")
	f.Add("s", "%3A", "s", ":")
	f.Add("s", strings.Repeat("a", 80), "s", strings.Repeat("a", 81))
	f.Fuzz(func(t *testing.T, scope1, key1, scope2, key2 string) {
		same := scope1 == scope2 && key1 == key2
		if one, other := redisKeyOf("n", scope1, key1), redisKeyOf("n", scope2, key2); (one == other) != same {
			t.Errorf("(%q, %q) and (%q, %q): got names %s and %s", scope1, key1, scope2, key2, one, other)
		}
	})
}

// Algorithms do not share state: each has its own Redis keys.
func TestRedisKeyPerAlgorithm(t *testing.T) {
	seen := make(map[string]headgate.Algorithm)
	for _, a := range algo.All() {
		n := newKeyNames(&Options{Namespace: "app"}, a.Name, "scope")
		key := n.redisKey("key")
		if other, taken := seen[key]; taken {
			t.Errorf("%s and %s are both stored at %s", other, a.Name, key)
		}
		seen[key] = a.Name
	}
}

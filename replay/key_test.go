package replay

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/key"
)

func TestParseKey(t *testing.T) {
	for _, text := range []string{"ip", "user", "method", "path", "ip+path", "user+method+path"} {
		k, err := ParseKey(text)
		if err != nil || k.String() != text {
			t.Errorf("ParseKey(%q) = %v, %v; want itself", text, k, err)
		}
	}
	for _, text := range []string{"", "host", "ip+", "+", "ip+host", "IP", "ip path"} {
		if _, err := ParseKey(text); !errors.Is(err, ErrInvalidKey) || !strings.Contains(err.Error(), "ip, user, method, path") {
			t.Errorf("ParseKey(%q): %v; want ErrInvalidKey and the fields there are", text, err)
		}
	}
	if got := (Key{}).String(); got != "ip" {
		t.Errorf("the zero Key is %q, want ip", got)
	}
}

// TestKeyOfALine: a key has the encoding of the service.
func TestKeyOfALine(t *testing.T) {
	line := &logLine{host: []byte("203.0.113.9"), user: []byte("a+b"), request: []byte("GET /a HTTP/1.1")}
	for text, want := range map[string]string{
		"ip": "203.0.113.9", "user": "a+b", "ip+path": "203.0.113.9+/a", "ip+user": `203.0.113.9+a\+b`,
	} {
		k, err := ParseKey(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(k.of(line, []byte("before"))); got != want {
			t.Errorf("%s: got %q want %q", text, got, want)
		}
	}
	long := &logLine{host: bytes.Repeat([]byte("x"), key.MaxBytes+1)}
	if got := string(Key{}.of(long, nil)); len(got) != len("sha256=")+64 {
		t.Errorf("a host of %d bytes: got %q want a hash", len(long.host), got)
	}
}

// FuzzJoinedKeys is T11: different fields give different keys, however they are split.
func FuzzJoinedKeys(f *testing.F) {
	f.Add("a+b", "c", "a", "b+c")
	f.Add(`a\`, "b", "a", `\+b`)
	f.Add(`\`, "+", `+\`, "")
	f.Fuzz(func(t *testing.T, ip1, user1, ip2, user2 string) {
		k, err := ParseKey("ip+user")
		if err != nil {
			t.Fatal(err)
		}
		join := func(ip, user string) string {
			return string(k.of(&logLine{host: []byte(ip), user: []byte(user)}, nil))
		}
		same := ip1 == ip2 && user1 == user2
		if one, two := join(ip1, user1), join(ip2, user2); (one == two) != same {
			t.Errorf("(%q, %q) is %q and (%q, %q) is %q", ip1, user1, one, ip2, user2, two)
		}
	})
}

// TestKeyTable: numbers of keys stay the same while the table grows, also for colliding
// hashes.
func TestKeyTable(t *testing.T) {
	for name, hash := range map[string]func(string) uint64{
		"hashed":    func(key string) uint64 { return maphash.String(hashSeed, key) },
		"colliding": func(key string) uint64 { return uint64(len(key)) },
	} {
		t.Run(name, func(t *testing.T) {
			const keys = 3000
			var table keyTable
			buffer := make([]byte, 0, 64)
			for round := range 2 {
				for i := range keys {
					buffer = fmt.Appendf(buffer[:0], "key %d", i)
					if got := table.intern(hash(string(buffer)), buffer); got != uint32(i) {
						t.Fatalf("round %d: key %d got number %d", round, i, got)
					}
				}
			}
			if table.len() != keys || table.names[17] != "key 17" {
				t.Errorf("the table has %d keys, number 17 is %q; want %d and key 17", table.len(), table.names[17], keys)
			}
			table.clear()
			if got := table.intern(hash("new"), []byte("new")); got != 0 || table.len() != 1 {
				t.Errorf("after clear a new key got number %d of %d, want 0 of 1", got, table.len())
			}
		})
	}
}

func TestKeyTableLongKeys(t *testing.T) {
	var table keyTable
	long := strings.Repeat("x", 3*arenaBlock)
	for _, key := range []string{"a", long, "b", ""} {
		n := table.intern(maphash.String(hashSeed, key), []byte(key))
		if table.names[n] != key {
			t.Errorf("a key of %d bytes came back with %d", len(key), len(table.names[n]))
		}
	}
	if table.bytes() < int64(len(long)) {
		t.Errorf("the table says that it holds %d bytes, with a key of %d", table.bytes(), len(long))
	}
}

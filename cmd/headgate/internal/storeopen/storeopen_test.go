package storeopen_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

func TestOpenMemory(t *testing.T) {
	for _, url := range []string{
		"memory", "memory://", "MEMORY://", "memory://?", "memory?max_entries=1000",
		"memory://?max_entries=1000", "memory://?max_bytes=1048576", "memory://?max_entries=1000&max_bytes=1048576",
	} {
		t.Run(url, func(t *testing.T) {
			store, err := storeopen.Open(url, nil)
			if err != nil {
				t.Fatalf("Open(%q): %v", url, err)
			}
			defer store.Close()
			l, err := headgate.New(store, headgate.MustPolicy("1/1h"), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{true, false} {
				d, err := l.Allow(t.Context(), "k")
				if err != nil || d.Allowed != want {
					t.Errorf("Open(%q), request %d: allowed %v, error %v; want %v", url, i+1, d.Allowed, err, want)
				}
			}
		})
	}
}

// The bounds in the URL reach the store: a small store becomes full, a large one does
// not.
func TestMemoryBounds(t *testing.T) {
	const keys = 4000
	for _, tt := range []struct {
		url  string
		full bool
	}{
		{"memory://?max_entries=100", true},
		{"memory://?max_bytes=65536", true},
		{"memory://", false},
	} {
		t.Run(tt.url, func(t *testing.T) {
			store, err := storeopen.Open(tt.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			l, err := headgate.New(store, headgate.MustPolicy("2/1h"), nil)
			if err != nil {
				t.Fatal(err)
			}
			denied := 0
			for i := range 2 * keys {
				if d, err := l.Allow(t.Context(), strconv.Itoa(i%keys)); err != nil || !d.Allowed {
					denied++
				}
			}
			if full := denied > 0; full != tt.full {
				t.Errorf("%s: %d of %d requests were not allowed; full: got %v, want %v", tt.url, denied, 2*keys, full, tt.full)
			}
		})
	}
}

func TestOpenInvalidURL(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"", "must be memory://, redis://"},
		{"user:secret@host", "must be memory://, redis://"},
		{"secret@host", "must be memory://, redis://"},
		{"memory://127.0.0.1", "address is not supported"},
		{"memory://secret", "address is not supported"},
		{"memory:secret", "address is not supported"},
		{"memoryx", "must be memory://, redis://"},
		{"memory://?max_keys=5", `unknown parameter "max_keys"; must be max_entries or max_bytes`},
		{"memory://?max_entries=secret", `parameter "max_entries" must be set once, to a whole number of at least 1`},
		{"memory://?max_entries=0", "at least 1"},
		{"memory://?max_entries=-1", "at least 1"},
		{"memory://?max_entries=1&max_entries=2", "must be set once"},
		{"memory://?max_entries=99999999999", "must be 1 to 2147483647"},
		{"memory://?max_bytes=1", "must be 65536 or more"},
		{"memory://?max_bytes=%zz", "invalid parameters"},
		{"redis://user:secret@", `store "redis": address: missing; use redis://`},
		{"redis://user:secret@host?colour=blue", `store "redis": parameter "colour": unknown`},
		{"redis://user:secret@host?namespace=" + strings.Repeat("n", 65), `store "redis": headgate: invalid policy: Namespace is 65 bytes long`},
		{"redis+sentinel://:secret@host", `store "redis+sentinel": master name: `},
		{"redis+mystery://:secret@host", `store "redis+mystery": scheme: `},
		{"memcached", "address is missing; must be memcached://host:port, such as memcached://127.0.0.1:11211"},
		{"memcached://", "address is missing"},
		{"memcached://?timeout=1s", "address is missing"},
		{"memcached://user:secret@host", "user and password are not supported"},
		{"memcached://host/secret", "a Unix socket is memcached:///path"},
		{"memcached://host:0", "must be 1 to 65535"},
		{"memcached://host,,host", "server 2"},
		{"memcached://host?colour=blue", `unknown parameter "colour"; must be one of namespace,`},
		{"memcached://host?timeout=secret", "parameter timeout must be set once, to a duration such as 500ms"},
		{"memcached://host?timeout=0s", "must be set once, to a duration"},
		{"memcached://host?timeout=1s&timeout=2s", "must be set once"},
		{"memcached://host?max_conns=0", "parameter max_conns must be set once, to a whole number of at least 1"},
		{"memcached://host?join=maybe", "must be set once, to true or false"},
		{"memcached://host?timeout=%zz", "invalid parameters"},
	} {
		t.Run(tt.url, func(t *testing.T) {
			_, err := storeopen.Open(tt.url, nil)
			var typed *storeopen.Error
			if !errors.As(err, &typed) || !errors.Is(err, storeopen.ErrUnknownStore) {
				t.Fatalf("Open(%q): error %v, want a *storeopen.Error", tt.url, err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open(%q): error %q, want it to contain %q", tt.url, err, tt.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("Open(%q): error %q contains a possible password", tt.url, err)
			}
		})
	}
}

func TestNameWithoutPassword(t *testing.T) {
	for url, want := range map[string]string{
		"memory":                           "memory",
		"Memory://?max_entries=1":          "memory",
		"redis://user:secret@10.0.0.1/0":   "redis",
		"redis+sentinel://u:secret@a,b/m0": "redis+sentinel",
		"secret@10.0.0.1:6379":             "?",
	} {
		if got := storeopen.Name(url); got != want {
			t.Errorf("Name(%q) = %q, want %q", url, got, want)
		}
	}
}

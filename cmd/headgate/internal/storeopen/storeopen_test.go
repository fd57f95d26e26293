package storeopen_test

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/memstore"
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

// The state in the folder of the URL survives, and a temporary store does not use it.
func TestMemoryFolder(t *testing.T) {
	folder := t.TempDir() + "/a folder"
	rawURL := "memory://" + strings.ReplaceAll(folder, " ", "%20") + "?sync=1m&max_entries=1000"
	if got := storeopen.FolderOf(rawURL); got != folder || storeopen.FolderOf("memory://") != "" || storeopen.FolderOf("redis://h") != "" {
		t.Errorf("folder: got %q want %q", got, folder)
	}
	if _, err := storeopen.OpenTemporary(rawURL); err == nil || !strings.Contains(err.Error(), "remove the folder") {
		t.Errorf("temporary store: got error %v want that the folder must be removed", err)
	}
	for start, want := range []bool{true, false} {
		store, err := storeopen.Open(rawURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := allowOne(t, store); d.Allowed != want {
			t.Errorf("start %d: got allowed %v want %v", start+1, d.Allowed, want)
		}
		checkFindings(t, rawURL, "in use by process")
		volatile, err := storeopen.Open(rawURL, &storeopen.Options{Volatile: true})
		if err != nil || !allowOne(t, volatile).Allowed {
			t.Errorf("volatile store: got error %v want one that is empty", err)
		}
		var typed *storeopen.Error
		if _, err := storeopen.Open(rawURL, nil); !errors.As(err, &typed) || !errors.Is(err, memstore.ErrFolderInUse) {
			t.Errorf("second store: got error %v want ErrFolderInUse", err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	checkFindings(t, rawURL, "not in use", "valid: 1 keys")
	if err := os.WriteFile(folder+"/state-0000000009", []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkFindings(t, rawURL, "corrupt at byte 0")
}

func allowOne(t *testing.T, store headgate.Store) headgate.Decision {
	t.Helper()
	l, err := headgate.New(store, headgate.MustPolicy("1/1h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Allow(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// checkFindings checks that the findings about a store contain the given texts.
func checkFindings(t *testing.T, rawURL string, want ...string) {
	t.Helper()
	found, err := storeopen.Check(t.Context(), rawURL)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range want {
		if !slices.ContainsFunc(found, func(f storeopen.Finding) bool { return strings.Contains(f.Says, text) }) {
			t.Errorf("check: got %+v want %q", found, text)
		}
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
		{"", "must be memory://, memory:///folder, redis://"},
		{"user:secret@host", "must be memory://, memory:///folder, redis://"},
		{"secret@host", "must be memory://, memory:///folder, redis://"},
		{"memory://127.0.0.1", "address is not supported"},
		{"memory://secret", "address is not supported"},
		{"memory:secret", "address is not supported"},
		{"memory:///", "address is not supported"},
		{"memory:///%zz", "address is not supported"},
		{"memory://?sync=1s", "parameter sync requires a folder"},
		{"memory:///var/lib/secret?sync=1ms", "Sync is 1ms; must be 10ms to 1m0s"},
		{"memory:///var/lib/secret?sync=often", "a duration such as 100ms"},
		{"memoryx", "must be memory://, memory:///folder, redis://"},
		{"memory://?max_keys=5", `unknown parameter "max_keys"; must be max_entries, max_bytes or sync`},
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

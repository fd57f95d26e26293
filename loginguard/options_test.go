package loginguard_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	invalid := []headgate.Limit{{Rate: -1, Period: time.Second}}
	for _, c := range []struct {
		name string
		opts loginguard.Options
		want error
	}{
		{"short secret", loginguard.Options{Secret: []byte("short")}, loginguard.ErrInvalidOptions},
		{"empty secret", loginguard.Options{Secret: []byte{}}, loginguard.ErrInvalidOptions},
		{"long name", loginguard.Options{Name: strings.Repeat("x", 65)}, loginguard.ErrInvalidOptions},
		{"known for too short", loginguard.Options{KnownFor: time.Millisecond}, loginguard.ErrInvalidOptions},
		{"known for a negative time", loginguard.Options{KnownFor: -1}, loginguard.ErrInvalidOptions},
		{"known for too long", loginguard.Options{KnownFor: 1 << 62}, loginguard.ErrInvalidOptions},
		{"network longer than the address", loginguard.Options{V6Subnet: 72}, loginguard.ErrInvalidOptions},
		{"bits", loginguard.Options{V6Address: 129}, loginguard.ErrInvalidOptions},
		{"cookie", loginguard.Options{DeviceCookie: "a b"}, loginguard.ErrInvalidOptions},
		{"network", loginguard.Options{Allow: []netip.Prefix{{}}}, loginguard.ErrInvalidOptions},
		{"network of mapped addresses", loginguard.Options{
			Allow: []netip.Prefix{netip.MustParsePrefix("::ffff:192.0.2.0/120")},
		}, loginguard.ErrInvalidOptions},
		{"too many limits", loginguard.Options{Limits: loginguard.Limits{Pair: make([]headgate.Limit, 33)}}, loginguard.ErrInvalidOptions},
		{"limit", loginguard.Options{Limits: loginguard.Limits{Total: invalid}}, headgate.ErrInvalidLimit},
		{"store error", loginguard.Options{OnStoreError: "perhaps"}, headgate.ErrInvalidPolicy},
	} {
		if _, err := loginguard.New(memstore.New(nil), &c.opts); !errors.Is(err, c.want) {
			t.Errorf("%s: got error %v want %v", c.name, err, c.want)
		}
	}
	if _, err := loginguard.New(nil, nil); !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("nil store: got error %v", err)
	}
}

// sharedStore is a store that reports that it is shared.
type sharedStore struct{ *memstore.Store }

func (sharedStore) Shared() bool { return true }

// unknownStore is a store that does not report whether it is shared.
type unknownStore struct{ headgate.HoldStore }

func withFallback(t *testing.T, inner headgate.Store) headgate.Store {
	store, err := fallback.New(inner, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestWarnsAboutMissingSecret(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		store  headgate.Store
		secret []byte
		want   int
	}{
		{"memory", memstore.New(nil), nil, 0},
		{"shared", sharedStore{memstore.New(nil)}, nil, 1},
		{"shared, with a secret", sharedStore{memstore.New(nil)}, secret, 0},
		{"unknown", unknownStore{memstore.New(nil)}, nil, 1},
		{"memory with a fallback", withFallback(t, memstore.New(nil)), nil, 0},
		{"shared with a fallback", withFallback(t, sharedStore{memstore.New(nil)}), nil, 1},
	} {
		warnings := 0
		_, err := loginguard.New(c.store, &loginguard.Options{Secret: c.secret, Warn: func(string) { warnings++ }})
		if err != nil || warnings != c.want {
			t.Errorf("%s: %d warnings, error %v; want %d", c.name, warnings, err, c.want)
		}
	}
}

// State is separate for each secret.
func TestSecretSeparatesState(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	c := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	one, other := mustNew(t, store, nil), mustNew(t, store, &loginguard.Options{Secret: []byte("another of 16 bytes and more")})
	mustSucceed(t, noon, mustAttempt(t, one, noon, c))
	if !mustAttempt(t, one, noon, c).Known() || mustAttempt(t, other, noon, c).Known() {
		t.Error("a pair is known under another secret, or not under its own")
	}
}

package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

// restrictiveStore is a memory store that refuses some rules.
type restrictiveStore struct{ headgate.Store }

func (s restrictiveStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	switch {
	case rule.Algorithm == headgate.SlidingLog:
		return nil, headgate.ErrUnsupported
	case rule.OnStoreError == headgate.FailLocal:
		return nil, fmt.Errorf("restrictive: %w: there is no fallback", headgate.ErrUnsupported)
	case rule.Limit.Rate > 1000:
		return nil, &headgate.LimitError{Field: "rate", Value: "more", Bound: "must be at most 1000"}
	}
	return s.Store.Bind(rule)
}

// Errors of a store about policies have positions in the file and are reported together.
func TestRefusedByStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	text := `policies:
  fine: {limits: ["1/s"]}
  log:
    limits: ["1/s", "2/m"]
    algorithm: sliding_log
  many:
    limits: ["1/s", "1001/60s"]
    overrides:
      "key:acme": ["1/s", "5000/m", "6000/1 minute"]
  mine:
    limits: ["1/s", "5000/m"]
    on_store_error: local
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store := restrictiveStore{memstore.New(nil)}
	t.Cleanup(func() { _ = store.Close() })
	mustRefuse(t, path, store, path+`:5:16: policies.log.algorithm: headgate: unsupported
`+path+`:7:21: policies.many.limits[1]: "1001/60s" is out of range: rate is more; must be at most 1000
`+path+`:9:27: policies.many.overrides."key:acme"[1]: "5000/m" is out of range: rate is more; must be at most 1000
`+path+`:9:37: policies.many.overrides."key:acme"[2]: "6000/1 minute" is out of range: rate is more; must be at most 1000
`+path+`:12:21: policies.mine.on_store_error: restrictive: headgate: unsupported: there is no fallback`)
}

// mustRefuse loads a file that an engine over store refuses, and compares the errors
// at start and on a reload.
func mustRefuse(t *testing.T, path string, store headgate.Store, want string) {
	t.Helper()
	from := config.Sources{Path: path}
	c, err := from.Load()
	if err != nil {
		t.Fatal(err)
	}
	_, refused := engine.New(store, c.Engine())
	if got := c.Refused(refused); !errors.Is(got, config.ErrInvalid) || got.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", got, want)
	}
	e, err := engine.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	live := config.Start(config.Sources{Path: path}, &config.Config{}, func(c *config.Config) error { return e.Apply(c.Engine()) }, nil)
	live.Reload()
	if got := live.Status().Err; got == nil || got.Error() != want {
		t.Errorf("on a reload: got\n%v\nwant\n%s", got, want)
	}
	if got := c.Refused(nil); got != nil {
		t.Errorf("no error became %v", got)
	}
	if other := errors.New("other"); c.Refused(other) != other { //nolint:errorlint // the same value is required
		t.Error("another error became another one")
	}
}

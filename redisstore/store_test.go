package redisstore_test

import (
	"testing"

	"github.com/headgate/headgate/redisstore"
)

// open makes a store that is closed when the test ends.
func open(t testing.TB, url string, opts *redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

package redisstore_test

import (
	"cmp"
	"testing"

	"github.com/headgate/headgate/redisstore"
)

// open opens a store that is closed with the test. The default Timeout is longTimeout.
func open(t testing.TB, url string, opts *redisstore.Options) *redisstore.Store {
	t.Helper()
	var o redisstore.Options
	if opts != nil {
		o = *opts
	}
	o.Timeout = cmp.Or(o.Timeout, longTimeout)
	s, err := redisstore.Open(url, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

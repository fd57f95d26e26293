package memcachedstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memcachedstore"
)

// BenchmarkAllow distributes the requests among callers that each make one call after
// another.
func BenchmarkAllow(b *testing.B) {
	server := testserver.Memcached(b, "-m", "256")
	for _, c := range []struct {
		name          string
		callers, keys int
		opts          memcachedstore.Options
	}{
		{"alone", 1, 1, memcachedstore.Options{}},
		{"manykeys", 64, 100_000, memcachedstore.Options{}},
		{"hotkey", 64, 1, memcachedstore.Options{}},
		{"hotkey/notjoined", 64, 1, memcachedstore.Options{DisableJoin: true, MaxTries: 1000}},
	} {
		b.Run(c.name, func(b *testing.B) {
			store, err := memcachedstore.New(&c.opts, server.Addr())
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			limiter, err := headgate.New(store, headgate.MustPolicy("1000000/1s"), nil)
			if err != nil {
				b.Fatal(err)
			}
			keys := make([]string, c.keys)
			for i := range keys {
				keys[i] = fmt.Sprintf("%s %d", c.name, i)
			}
			var next atomic.Int64
			var callers sync.WaitGroup
			for range c.callers {
				callers.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if _, err := limiter.Allow(b.Context(), keys[int(i*7919)%len(keys)]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			callers.Wait()
		})
	}
}

package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// flushFor is how long scripts are flushed under load; the long form is 30s.
var flushFor = flag.Duration("flush", time.Second, "how long the scripts of a server are flushed every 10 ms")

// Flushed scripts cause no error, whatever is in flight. // T7
func TestScriptFlushUnderLoad(t *testing.T) {
	server := testserver.Redis(t)
	store := open(t, "redis://"+server.Addr(), &redisstore.Options{Timeout: longTimeout})
	limits := []*headgate.Limiter{
		limiter(t, store, "bucket", headgate.TokenBucket, "1000000/1s"), limiter(t, store, "log", headgate.SlidingLog, "1000/1m"),
	}
	over, stop := context.WithTimeout(context.Background(), *flushFor)
	defer stop()
	var decided atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := 0; over.Err() == nil; n++ {
				if _, err := limits[(i+n)%2].Allow(context.Background(), fmt.Sprint(n%1000)); err != nil {
					t.Error(err)
					return
				}
				decided.Add(1)
			}
		})
	}
	for over.Err() == nil {
		server.Do(t, "SCRIPT", "FLUSH")
		time.Sleep(10 * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d decisions in %v", decided.Load(), *flushFor)
}

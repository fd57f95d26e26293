package stores

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/bench"
)

// syncLater counts locally and synchronizes later, as Kong, unkey and gubernator do. It
// has a fixed window. A check compares the limit with the total of the last
// synchronization plus what this process has allowed since. Once in each interval, one
// pipeline adds the local counts to Redis and reads the totals, for all keys that were
// checked in the present window. A check takes no lock, and no check waits for Redis.
type syncLater struct {
	client   rueidis.Client
	limit    bench.Limit
	interval time.Duration
	keys     sync.Map // maps each key to a *localWindow
	stop     chan struct{}
	done     sync.WaitGroup
}

// localWindow is the count of one key in one window.
type localWindow struct {
	number  int64        // the start of the window divided by its length
	used    atomic.Int64 // units that this process knows of
	pending atomic.Int64 // units of them that Redis does not know of
	total   int64        // the last total of Redis; only synchronize uses it
}

func syncLaterRow(interval time.Duration) func(string, bench.Limit) (Limiter, error) {
	return func(addr string, limit bench.Limit) (Limiter, error) {
		client, err := newRueidis(addr)
		if err != nil {
			return nil, err
		}
		s := &syncLater{client: client, limit: limit, interval: interval, stop: make(chan struct{})}
		s.done.Go(s.run)
		return s, nil
	}
}

// Allow decides with the counts that this process knows of.
func (s *syncLater) Allow(_ context.Context, key string) (bool, error) {
	w := s.window(key)
	for {
		used := w.used.Load()
		if used >= int64(s.limit.Burst) {
			return false, nil
		}
		if w.used.CompareAndSwap(used, used+1) {
			w.pending.Add(1)
			return true, nil
		}
	}
}

// window returns the present window of key.
func (s *syncLater) window(key string) *localWindow {
	number := s.present()
	found, ok := s.keys.Load(key)
	if ok && found.(*localWindow).number == number {
		return found.(*localWindow)
	}
	next := &localWindow{number: number}
	if !ok {
		found, _ = s.keys.LoadOrStore(strings.Clone(key), next)
		return found.(*localWindow)
	}
	if s.keys.CompareAndSwap(strings.Clone(key), found, next) {
		return next
	}
	return s.window(key)
}

func (s *syncLater) present() int64 { return time.Now().UnixNano() / int64(s.limit.Window()) }

// run synchronizes once in each interval until Close.
func (s *syncLater) run() {
	ticks := time.NewTicker(s.interval)
	defer ticks.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticks.C:
			s.synchronize()
		}
	}
}

// synchronize adds the local counts to Redis and takes over the counts of others. If a
// call fails, the counts are added in the next interval.
func (s *syncLater) synchronize() {
	var windows []*localWindow
	var added []int64
	var commands rueidis.Commands
	number := s.present()
	s.keys.Range(func(key, value any) bool {
		if w := value.(*localWindow); w.number == number {
			n := w.pending.Swap(0)
			name := fmt.Sprintf("synced %v:%s:%d", s.interval, key, number)
			windows, added = append(windows, w), append(added, n)
			commands = append(commands, s.client.B().Incrby().Key(name).Increment(n).Build(),
				s.client.B().Pexpire().Key(name).Milliseconds(2*s.limit.Window().Milliseconds()).Build())
		}
		return true
	})
	if len(commands) == 0 {
		return
	}
	replies := s.client.DoMulti(context.Background(), commands...)
	for i, w := range windows {
		total, err := replies[2*i].AsInt64()
		if err != nil {
			w.pending.Add(added[i])
			continue
		}
		w.used.Add(total - w.total - added[i])
		w.total = total
	}
}

func (s *syncLater) Close() error {
	close(s.stop)
	s.done.Wait()
	s.client.Close()
	return nil
}

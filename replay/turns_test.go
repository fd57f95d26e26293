package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/replay"
)

// slow is a slow memory store. It counts concurrent decisions and fails at one time.
type slow struct {
	*memstore.Store
	underWay, most atomic.Int64
	failAt         headgate.Instant
	mu             sync.Mutex
	last           map[string]headgate.Instant
	backwards      atomic.Int64
}

var errAway = errors.New("away")

func (s *slow) Bind(r headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(r)
	return slowBound{b, s}, err
}

type slowBound struct {
	headgate.Bound
	store *slow
}

func (b slowBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	s := b.store
	if n := s.underWay.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.underWay.Add(-1)
	time.Sleep(10 * time.Microsecond)
	s.mu.Lock()
	if s.last[key] > now {
		s.backwards.Add(1)
	}
	s.last[key] = now
	s.mu.Unlock()
	if now == s.failAt {
		return headgate.Decision{}, errAway
	}
	return b.Bound.Apply(ctx, now, key, v, cost)
}

func newSlow(failAt headgate.Instant) *slow {
	return &slow{Store: memstore.New(nil), failAt: failAt, last: map[string]headgate.Instant{}}
}

// apart has a small memory store for each key, so that no key expires by the time of
// another key.
type apart struct {
	*memstore.Store
	mu   sync.Mutex
	keys map[string]headgate.Bound // one store for each key
}

func openApart() (headgate.Store, error) {
	return &apart{Store: memstore.New(nil), keys: map[string]headgate.Bound{}}, nil
}

func (s *apart) Bind(r headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(r)
	return apartBound{b, s, r}, err
}

func (s *apart) of(r headgate.Rule, key string) (headgate.Bound, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.keys[key] == nil {
		s.keys[key], err = memstore.New(&memstore.Options{MaxBytes: 64 << 10}).Bind(r)
	}
	return s.keys[key], err
}

type apartBound struct {
	headgate.Bound
	store *apart
	rule  headgate.Rule
}

func (b apartBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	bound, err := b.store.of(b.rule, key)
	if err != nil {
		return headgate.Decision{}, err
	}
	return bound.Apply(ctx, now, key, v, cost)
}

// TestConcurrentDecisionsAreEqual: with any number of decisions in flight, decisions
// and their order in the output are the same, for every algorithm.
func TestConcurrentDecisionsAreEqual(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		fmt.Fprintf(&log, `{"ts_us":%d,"key":"k%d","cost":%d}`+"\n", 1_000_000+i/3*1000-random.IntN(2)*5000, random.IntN(8)*random.IntN(8), random.IntN(4))
	}
	logs := []replay.Log{textLog("log", log.String())}
	policies := replay.SideBySide(limits(t, "5/100ms"), everyAlgorithm()...)
	var want bytes.Buffer
	one, err := replay.Run(t.Context(), logs, policies, openMemory, &replay.Options{Decisions: &want})
	if err != nil {
		t.Fatal(err)
	}
	for _, inFlight := range []int{1, 2, 64, replay.MaxInFlight} {
		var got bytes.Buffer
		many, err := replay.Run(t.Context(), logs, policies, openApart, &replay.Options{Decisions: &got, InFlight: inFlight})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("with %d under way: the decisions differ", inFlight)
		}
		for i := range one.Policies {
			if many.Policies[i].Admitted != one.Policies[i].Admitted {
				t.Errorf("with %d under way, policy %d: got %d admitted want %d", inFlight, i, many.Policies[i].Admitted, one.Policies[i].Admitted)
			}
		}
	}
}

func TestConcurrentDecisionsKeepKeyOrder(t *testing.T) {
	t.Parallel()
	var store *slow
	open := func() (headgate.Store, error) { store = newSlow(-1); return store, nil }
	_, err := replay.Run(t.Context(), realLog, replay.SideBySide(limits(t, "3/10s"), headgate.TokenBucket), open, &replay.Options{InFlight: 32})
	if err != nil {
		t.Fatal(err)
	}
	if n := store.backwards.Load(); n > 0 {
		t.Errorf("got %d requests of a key before one that came earlier want none", n)
	}
	if most := store.most.Load(); most < 8 || most > 32 {
		t.Errorf("got at most %d decisions under way want 8 to 32", most)
	}
}

func TestStoreErrorEndsReplay(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&log, `{"ts_us":%d,"key":"k%d"}`+"\n", 1_000_000+i, i%500)
	}
	for _, inFlight := range []int{1, 64} {
		store := newSlow(1_002_000)
		open := func() (headgate.Store, error) { return store, nil }
		report, err := replay.Run(t.Context(), []replay.Log{textLog("log", log.String())}, replay.SideBySide(limits(t, "3/10s"), headgate.TokenBucket), open,
			&replay.Options{InFlight: inFlight})
		if !errors.Is(err, errAway) || report != nil || !strings.Contains(err.Error(), "token_bucket at 1002000 µs") {
			t.Errorf("%d under way: got report %v, error %v want none and where it broke", inFlight, report, err)
		}
		if err := store.Close(); err != nil || store.underWay.Load() != 0 {
			t.Errorf("%d under way: got %d left, error %v", inFlight, store.underWay.Load(), err)
		}
	}
	if _, err := replay.Run(t.Context(), realLog, replay.SideBySide(limits(t, "3/10s"), headgate.TokenBucket), openMemory, &replay.Options{InFlight: -1}); err == nil {
		t.Error("-1 under way: got no error")
	}
}

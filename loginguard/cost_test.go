package loginguard_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// counted is the embedded store, and a list of what it was asked, without keys.
type counted struct {
	*memstore.Store
	mu    sync.Mutex
	asked []string
}

type countedBound struct {
	headgate.Bound
	store *counted
	name  string
}

func (s *counted) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return &countedBound{b, s, rule.Name}, err
}

func (s *counted) note(what ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprint(what...))
}

func (s *counted) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, d []headgate.Decision) error {
	inner := slices.Clone(ops)
	for i, op := range ops {
		b := op.Bound.(*countedBound)
		s.note("all ", b.name, " ", len(op.Key))
		inner[i].Bound = b.Bound
	}
	return s.Store.ApplyAll(ctx, now, inner, peek, d)
}

func (b *countedBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, n int64) (headgate.Decision, error) {
	b.store.note(v, " ", b.name, " ", len(key))
	return b.Bound.Apply(ctx, now, key, v, n)
}

// The time that a guard takes is that of what it asks the store: for a stranger the same for an account that exists, and that
// its owner uses, as for one that does not, guess by guess.
func TestNoDifferenceInWhatIsAsked(t *testing.T) {
	t.Parallel()
	asked := func(owner bool) []string {
		s := &counted{Store: memstore.New(nil)}
		g := mustNew(t, s, nil)
		if owner {
			mustSucceed(t, noon, mustTry(t, g, noon, loginguard.Client{Addr: host(9, 9), Account: "bob"}))
			s.asked = nil
		}
		for n := range 40 {
			mustTry(t, g, noon, loginguard.Client{Addr: host(n%10, 1), Account: "bob"}).Failed()
		}
		return s.asked
	}
	existing, unknown := asked(true), asked(false)
	if !reflect.DeepEqual(existing, unknown) {
		t.Errorf("existing %q\nunknown %q", existing, unknown)
	}
	if want := 40 * (1 + 11 + 6 + 2 + 2); len(unknown) != want {
		t.Errorf("40 tries ask %d times; want %d: one for what is known, 21 limits", len(unknown), want)
	}
}

// What a guard adds to a login: a try that fails, and one that succeeds.
func BenchmarkTry(b *testing.B) {
	b.Run("memory", func(b *testing.B) { benchmarkTries(b, memstore.New(nil)) })
	b.Run("redis", func(b *testing.B) {
		store := mustOpenRedis(b, testserver.Redis(b))
		defer store.Close()
		benchmarkTries(b, store)
	})
}

func benchmarkTries(b *testing.B, store headgate.Store) {
	g := mustNew(b, store, nil)
	b.Run("failure", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			mustTry(b, g, headgate.StoreClock, loginguard.Client{Addr: host(n, 1), Account: name(n)}).Failed()
		}
	})
	b.Run("success", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			a := mustTry(b, g, headgate.StoreClock, loginguard.Client{Addr: host(n, 1), Account: name(-n)})
			if err := a.Succeeded(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

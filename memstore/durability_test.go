package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// copyFolder copies the files of a folder, as a crash at this moment would leave them.
func copyFolder(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// stateFile returns the path of the state file in a folder.
func stateFile(t testing.TB, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "state-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("state files: got %v, error %v want one", files, err)
	}
	return files[0]
}

// syncNow saves the state of a store.
func syncNow(t testing.TB, s *memstore.Store) {
	t.Helper()
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// player executes random operations on a store with limits of all algorithms.
type player struct {
	r        *rand.Rand
	store    *memstore.Store
	limiters []*headgate.Limiter
	slots    *headgate.Limiter
	holds    []*headgate.Hold
	now      headgate.Instant
	keys     int
	// crowded is true if keys share overflow buckets. A key whose own log was emptied
	// by a refund may then have less after a restart, when it uses its overflow log
	// again.
	crowded bool
}

func newPlayer(t testing.TB, s *memstore.Store, seed uint64, now headgate.Instant, keys int) *player {
	p := &player{r: rand.New(rand.NewPCG(seed, 1)), store: s, now: now, keys: keys}
	p.bind(t, s)
	return p
}

// bind binds the limits to a store.
func (p *player) bind(t testing.TB, s *memstore.Store) {
	t.Helper()
	p.store, p.limiters = s, nil
	for _, a := range names() {
		p.limiters = append(p.limiters, newLimiter(t, s, string(a), a, "7/1h"), newLimiter(t, s, "second", a, "100/1m"))
	}
	l, err := headgate.New(s, headgate.Policy{
		Name: "slots", Algorithm: headgate.Concurrency, Limits: []headgate.Limit{headgate.MustParseLimit("5 concurrent")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.slots = l
}

func (p *player) key() string { return fmt.Sprint(p.r.IntN(p.keys)) }

// step executes one operation. Denials, and errors because of a full store, are normal.
func (p *player) step(t testing.TB) {
	p.now += headgate.Instant(p.r.Int64N(3_000_000))
	at, l, ctx := p.now.Time(), p.limiters[p.r.IntN(len(p.limiters))], t.Context()
	switch p.r.IntN(12) {
	case 0:
		_, _ = l.RefundAt(ctx, at, p.key(), 1+p.r.Int64N(3))
	case 1:
		if p.r.IntN(4) == 0 {
			_, _ = l.ResetAt(ctx, at, p.key())
		}
	case 2, 3:
		if p.r.IntN(2) == 0 {
			l = p.slots
		}
		h, err := l.HoldAt(ctx, at, p.key(), 1+p.r.Int64N(3), time.Duration(1+p.r.IntN(300))*time.Second)
		if err == nil && h.OK() {
			p.holds = append(p.holds, h)
		}
	case 4:
		p.endHold(t, at)
	case 5:
		other := p.limiters[p.r.IntN(len(p.limiters))]
		_, _ = headgate.AllowAllAt(ctx, at, headgate.Check{Limiter: l, Key: p.key(), Cost: 1}, headgate.Check{Limiter: other, Key: p.key(), Cost: 2})
	default:
		_, _ = l.AllowAt(ctx, at, p.key(), 1+p.r.Int64N(3))
	}
}

func (p *player) endHold(t testing.TB, at time.Time) {
	if len(p.holds) == 0 {
		return
	}
	i := p.r.IntN(len(p.holds))
	h := p.holds[i]
	p.holds = append(p.holds[:i], p.holds[i+1:]...)
	_, _ = h.CommitAt(t.Context(), at, p.r.Int64N(4))
}

// compare compares the answers of two stores for all keys, now and later.
func (p *player) compare(t testing.TB, got, want *memstore.Store) {
	t.Helper()
	g, w := *p, *p
	g.bind(t, got)
	w.bind(t, want)
	for _, later := range []time.Duration{0, time.Minute, time.Hour} {
		at := p.now.Time().Add(later)
		for i := range append(g.limiters, g.slots) {
			a, b := g.slots, w.slots
			if i < len(g.limiters) {
				a, b = g.limiters[i], w.limiters[i]
			}
			for k := range p.keys {
				x, err := a.PeekAt(t.Context(), at, fmt.Sprint(k), 1)
				y, err2 := b.PeekAt(t.Context(), at, fmt.Sprint(k), 1)
				if err != nil || err2 != nil || x.Remaining > y.Remaining || !p.crowded && !equalDecisions(x, y) {
					t.Fatalf("limiter %d, key %d, %v later: got %+v, %v want %+v, %v", i, k, later, x, err, y, err2)
				}
			}
		}
	}
}

// TestFolderRestoresEveryOperation executes random operations and compares the store with
// one that is opened from a copy of the folder, after each of many syncs.
func TestFolderRestoresEveryOperation(t *testing.T) {
	for _, entries := range []int{100_000, 150} { // in the small store, keys share overflow buckets
		t.Run(fmt.Sprint(entries), func(t *testing.T) {
			folder := t.TempDir()
			opts := &memstore.FolderOptions{Options: memstore.Options{MaxEntries: entries}, Sync: time.Minute}
			s := openFolder(t, folder, opts)
			p := newPlayer(t, s, 5, headgate.InstantOf(time.Now()), 40)
			p.crowded = entries < 1000
			for range atLeast(10, 60) {
				for range p.r.IntN(200) {
					p.step(t)
				}
				syncNow(t, s)
				p.compare(t, openFolder(t, copyFolder(t, folder), opts), s)
			}
		})
	}
}

// TestFolderAfterManyStarts continues with the restored store each time, so that mistakes
// add up.
func TestFolderAfterManyStarts(t *testing.T) {
	folder := t.TempDir()
	opts := &memstore.FolderOptions{Options: memstore.Options{MaxEntries: 3000}, Sync: time.Minute}
	s, err := memstore.Open(folder, opts)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlayer(t, s, 6, headgate.InstantOf(time.Now()), 60)
	for range atLeast(6, 30) {
		for range p.r.IntN(300) {
			p.step(t)
		}
		before := openFolder(t, copyAfterSync(t, s, folder), opts)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = memstore.Open(folder, opts); err != nil {
			t.Fatal(err)
		}
		if r := s.Folder().Restored; !r.Found || !r.Clean || r.CutBytes != 0 {
			t.Fatalf("after a regular stop: got %+v want found and clean", r)
		}
		p.compare(t, s, before)
		p.bind(t, s)
		p.holds = nil // the holds of the closed store expire
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func copyAfterSync(t testing.TB, s *memstore.Store, folder string) string {
	t.Helper()
	syncNow(t, s)
	return copyFolder(t, folder)
}

// TestFolderConcurrentDecisions takes from many goroutines while syncs run. Every unit
// that was admitted before a sync began is spent in a copy after it.
func TestFolderConcurrentDecisions(t *testing.T) {
	const keys, limit = 500, "1000000/24h"
	folder := t.TempDir()
	opts := &memstore.FolderOptions{Options: memstore.Options{MaxEntries: 2000}, Sync: 10 * time.Millisecond}
	s := openFolder(t, folder, opts)
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.FixedWindow, headgate.SlidingLog} {
		t.Run(string(a), func(t *testing.T) {
			l := newLimiter(t, s, string(a), a, limit)
			for round := range atLeast(3, 20) {
				var all sync.WaitGroup
				for g := range 4 {
					all.Go(func() {
						r := rand.New(rand.NewPCG(uint64(g), uint64(round)))
						for range 5000 {
							if _, err := l.Allow(t.Context(), fmt.Sprint(r.IntN(keys))); err != nil {
								t.Error(err)
							}
						}
					})
				}
				all.Wait()
				restored := openFolder(t, copyAfterSync(t, s, folder), opts)
				compareRemaining(t, l, newLimiter(t, restored, string(a), a, limit), keys)
			}
		})
	}
}

// compareRemaining compares what remains of each key at the same instant.
func compareRemaining(t *testing.T, want, got *headgate.Limiter, keys int) {
	t.Helper()
	now := time.Now()
	for k := range keys {
		w, err := want.PeekAt(t.Context(), now, fmt.Sprint(k), 1)
		g, err2 := got.PeekAt(t.Context(), now, fmt.Sprint(k), 1)
		if err != nil || err2 != nil || g.Remaining != w.Remaining {
			t.Fatalf("key %d: got %d remaining, %v want %d, %v", k, g.Remaining, err2, w.Remaining, err)
		}
	}
}

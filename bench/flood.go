package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// Flood is an attack on a store's memory: requests with keys that never come again, to make it forget the keys that do. The
// clock is virtual, so the same requests are decided at the same instants on every machine.
type Flood struct {
	Requests int // with random keys
	Entries  int // keys that the store is bounded to
	Bytes    int // memory that the store is bounded to
	Busy     int // keys in regular use, asked one after another
	Every    int // random requests between two busy ones
}

// FloodReport says what the attack did.
type FloodReport struct {
	Random, Busy int
	Admitted     int    // of the busy requests, by the store under attack
	Differing    int    // busy requests answered otherwise than by a store that nobody attacks
	First        string // the first of them
	Errors       int    // random requests that the store could not decide
	Wall         time.Duration
	Stats        memstore.Stats
	Before       int64 // resident memory before the store was made, in bytes
	Peak, After  int64 // at its highest, and at the end
}

// floodLimit is the limit of every key in a flood: a busy key is over it most of the time, and so is worth forgetting.
const floodLimit = "10/1m burst 10"

const (
	floodBegin     = headgate.Instant(1_750_000_000_000_000)
	perMicrosecond = 1 // requests
)

// Run carries the attack out on one goroutine.
func (f Flood) Run() (FloodReport, error) {
	calm, err := headgate.New(memstore.New(&memstore.Options{MaxEntries: max(1024, 10*f.Busy)}), headgate.MustPolicy(floodLimit), nil)
	if err != nil {
		return FloodReport{}, err
	}
	runtime.GC()
	var r FloodReport
	r.Before, _ = RSS()
	store := memstore.New(&memstore.Options{MaxEntries: f.Entries, MaxBytes: int64(f.Bytes)})
	attacked, err := headgate.New(store, headgate.MustPolicy(floodLimit), nil)
	if err != nil {
		return r, err
	}
	start := time.Now()
	if err := f.attack(attacked, calm, &r); err != nil {
		return r, err
	}
	r.Wall, r.Stats = time.Since(start), store.Stats()
	r.After, r.Peak = RSS()
	runtime.KeepAlive(store)
	return r, nil
}

func (f Flood) attack(attacked, calm *headgate.Limiter, r *FloodReport) error {
	ctx := context.Background()
	now := floodBegin
	hostile, busy := hexKeys{rng: 1}, NewKeys(f.Busy, 0)
	for r.Random < f.Requests {
		if _, err := attacked.AllowAt(ctx, now.Time(), hostile.next(), 1); err != nil {
			r.Errors++
		}
		r.Random++
		now += perMicrosecond
		if r.Random%f.Every != 0 {
			continue
		}
		if err := r.compare(ctx, attacked, calm, now, busy.Key(uint64(r.Busy%f.Busy))); err != nil {
			return err
		}
		now += perMicrosecond
	}
	return nil
}

// compare asks both stores the same.
func (r *FloodReport) compare(ctx context.Context, attacked, calm *headgate.Limiter, now headgate.Instant, key string) error {
	want, err := calm.AllowAt(ctx, now.Time(), key, 1)
	if err != nil {
		return fmt.Errorf("bench: the store that nobody attacks: %w", err)
	}
	got, err := attacked.AllowAt(ctx, now.Time(), key, 1)
	r.Busy++
	if got.Allowed {
		r.Admitted++
	}
	if err != nil || !equal(got, want) {
		if r.Differing++; r.First == "" {
			r.First = fmt.Sprintf("%s after %d random requests: got %+v (%v), want %+v", key, r.Random, got, err, want)
		}
	}
	return nil
}

// equal compares without reflection, which would make garbage.
func equal(a, b headgate.Decision) bool {
	return a.Allowed == b.Allowed && a.Never == b.Never && a.Limit == b.Limit && a.Remaining == b.Remaining &&
		a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Delay == b.Delay && slices.Equal(a.DeniedBy, b.DeniedBy)
}

// hexKeys are keys that never come again, for all an attacker's patience: 64 random bits each. A text is good until the next
// one: garbage of the harness would be counted as the store's memory.
type hexKeys struct {
	rng uint64
	buf [20]byte
}

func (h *hexKeys) next() string {
	h.rng ^= h.rng << 13
	h.rng ^= h.rng >> 7
	h.rng ^= h.rng << 17
	text := strconv.AppendUint(append(h.buf[:0], "bot:"...), h.rng, 16)
	return unsafe.String(&text[0], len(text))
}

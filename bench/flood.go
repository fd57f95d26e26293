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

// Flood describes an attack on a store's memory: requests with keys that are never
// repeated, meant to evict keys in regular use. The clock is virtual, so the same
// requests are decided at the same times on every machine.
type Flood struct {
	Requests int // requests with random keys
	Entries  int // maximum number of keys in the store
	Bytes    int // memory limit of the store in bytes; 0 means no limit
	Busy     int // keys in regular use, requested in turn
	Every    int // random requests between two requests with a busy key
}

// FloodReport contains the results of a flood.
type FloodReport struct {
	Random, Busy int
	Allowed      int    // busy requests allowed by the store under attack
	Differing    int    // busy requests decided differently from a store without attack
	First        string // description of the first differing decision
	Errors       int    // random requests that the store could not decide
	Wall         time.Duration
	Stats        memstore.Stats
	Before       int64 // resident memory before the store was created, in bytes
	Peak, After  int64 // peak and final resident memory, in bytes
}

// floodLimit is the limit of every key in a flood. A busy key exceeds it most of the
// time, so an attacker gains from its eviction.
const floodLimit = "10/1m burst 10"

const (
	floodBegin     = headgate.Instant(1_750_000_000_000_000)
	perMicrosecond = 1 // requests per microsecond of virtual time
)

// Run runs the attack on one goroutine.
func (f Flood) Run() (FloodReport, error) {
	reference, err := headgate.New(memstore.New(&memstore.Options{MaxEntries: max(1024, 10*f.Busy)}), headgate.MustPolicy(floodLimit), nil)
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
	if err := f.attack(attacked, reference, &r); err != nil {
		return r, err
	}
	r.Wall, r.Stats = time.Since(start), store.Stats()
	r.After, r.Peak = RSS()
	runtime.KeepAlive(store)
	return r, nil
}

func (f Flood) attack(attacked, reference *headgate.Limiter, r *FloodReport) error {
	ctx := context.Background()
	now := floodBegin
	random, busy := hexKeys{rng: 1}, NewKeys(f.Busy, 0)
	for r.Random < f.Requests {
		if _, err := attacked.AllowAt(ctx, now.Time(), random.next(), 1); err != nil {
			r.Errors++
		}
		r.Random++
		now += perMicrosecond
		if r.Random%f.Every != 0 {
			continue
		}
		if err := r.compare(ctx, attacked, reference, now, busy.Key(uint64(r.Busy%f.Busy))); err != nil {
			return err
		}
		now += perMicrosecond
	}
	return nil
}

// compare sends the same request to both stores and records a difference.
func (r *FloodReport) compare(ctx context.Context, attacked, reference *headgate.Limiter, now headgate.Instant, key string) error {
	want, err := reference.AllowAt(ctx, now.Time(), key, 1)
	if err != nil {
		return fmt.Errorf("bench: reference store without attack: %w", err)
	}
	got, err := attacked.AllowAt(ctx, now.Time(), key, 1)
	r.Busy++
	if got.Allowed {
		r.Allowed++
	}
	if err != nil || !equal(got, want) {
		if r.Differing++; r.First == "" {
			r.First = fmt.Sprintf("%s after %d random requests: got %+v (%v), want %+v", key, r.Random, got, err, want)
		}
	}
	return nil
}

// equal compares two decisions without reflection, which would allocate.
func equal(a, b headgate.Decision) bool {
	return a.Allowed == b.Allowed && a.Never == b.Never && a.Limit == b.Limit && a.Remaining == b.Remaining &&
		a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Delay == b.Delay && slices.Equal(a.DeniedBy, b.DeniedBy)
}

// hexKeys generates keys of 64 random bits, which are practically never repeated. A
// returned text is valid until the next call: keys allocated by the generator would be
// counted as memory of the store.
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

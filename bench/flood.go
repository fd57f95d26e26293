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

// Flood describes an attack on the memory of a store: requests with random keys, none
// of which occurs twice, that may evict the keys in regular use. The clock is virtual,
// so that the same requests are decided at the same times on every machine.
type Flood struct {
	Requests int // number of requests with random keys
	Entries  int // maximum number of keys in the store
	Bytes    int // memory limit of the store in bytes; 0 means no limit
	Busy     int // number of keys in regular use, which are used in turn
	Every    int // number of random requests between two requests for a key in regular use
}

// FloodReport contains the results of an attack.
type FloodReport struct {
	Random, Busy int
	Allowed      int    // requests for keys in regular use that the attacked store allowed
	Differing    int    // requests for keys in regular use on which a store without an attack decided differently
	First        string // description of the first difference
	Errors       int    // requests with random keys that the store could not decide
	Wall         time.Duration
	Stats        memstore.Stats
	Before       int64 // resident memory before the store was created, in bytes
	Peak, After  int64 // maximum and final resident memory, in bytes
}

// floodLimit is the limit of every key in an attack. A key in regular use exceeds it
// most of the time, so that an attacker would gain from the eviction of the key.
const floodLimit = "10/1m burst 10"

const (
	floodBegin     = headgate.Instant(1_750_000_000_000_000)
	perMicrosecond = 1 // number of requests per microsecond of virtual time
)

// Run executes the attack on one goroutine and returns the results.
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

// compare sends the same request to both limiters and records whether the decisions
// differ.
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

// equal reports whether two decisions are equal. It does not use reflection, which
// would allocate.
func equal(a, b headgate.Decision) bool {
	return a.Allowed == b.Allowed && a.Never == b.Never && a.Limit == b.Limit && a.Remaining == b.Remaining &&
		a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Delay == b.Delay && slices.Equal(a.DeniedBy, b.DeniedBy)
}

// hexKeys generates keys of 64 random bits, so that practically no key occurs twice. A
// key is valid until the next call, because all keys are written to the same memory.
// Keys that the generator allocates would count as memory of the store.
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

package headgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/heartbeat"
)

// ExtendAll sets the deadline of each hold to the present time plus ttl, like
// [Hold.Extend]. It returns a result for each hold, whose Err is [ErrExpiredHold] or
// [ErrUnknownHold] if the hold is not open. All holds must use the same store. ExtendAll
// calls the store once for at most 256 limits of one server (see [NodeOf]), or for one
// hold with more limits. It makes at most 16 calls at the same time, and divides the time
// until the deadline of ctx among the calls that follow one another.
//
// If a call fails, Err of its holds is the error, and the other calls are made. If it
// fails because of a key, and not because of the server, ExtendAll repeats it in halves,
// with at most 64 further calls: four such keys do not prevent the extension of the other
// holds of the call. ExtendAll then returns all results together with the first error.
// ExtendAll and [KeepAlive] send no events to the observers of the limiters.
func ExtendAll(ctx context.Context, ttl time.Duration, holds ...*Hold) ([]HoldResult, error) {
	return extendAll(ctx, StoreClock, ttl, holds)
}

// ExtendAllAt is like [ExtendAll] at the time now.
func ExtendAllAt(ctx context.Context, now time.Time, ttl time.Duration, holds ...*Hold) ([]HoldResult, error) {
	return extendAll(ctx, InstantOf(now), ttl, holds)
}

func extendAll(ctx context.Context, now Instant, ttl time.Duration, holds []*Hold) ([]HoldResult, error) {
	if err := checkTTL(ttl); err != nil {
		return nil, err
	}
	results, sizes := make([]HoldResult, len(holds)), make([]int, len(holds))
	var all []HoldOp
	var store Store
	var failed error
	for i, h := range holds {
		ops, err := opsOf(now, h.checks)
		switch {
		case err != nil:
		case store == nil:
			store = h.checks[0].Limiter.store
		case store != h.checks[0].Limiter.store:
			err = fmt.Errorf("%w: hold %d does not use the same store as the holds before it; all holds must use one store", ErrInvalidHold, i+1)
		}
		if results[i].Err = err; err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		all, sizes[i] = append(all, h.ops(ops)...), len(ops)
	}
	limits := make([]HoldResult, len(all))
	at, err := extendOps(ctx, store, now, ttl, all, sizes, limits)
	for i, h := range holds {
		if n := sizes[i]; n > 0 {
			results[i] = h.extended(at, ttl, limits[:n])
			limits = limits[n:]
		}
	}
	return results, cmp.Or(failed, err)
}

// extended returns the result of an extension with the results of all its limits.
func (h *Hold) extended(at Instant, ttl time.Duration, limits []HoldResult) HoldResult {
	result, err := h.finalResult(at, nil, 0, limits)
	if err == nil {
		h.setExpires(result.Deadline, at, ttl)
	}
	result.Err = err
	return result
}

// KeepAliveOptions are the settings of a [KeepAlive]. A field with the zero value has the
// default given in its comment; nil options select all defaults. Lost and Failed are
// called one at a time. The next extension waits for them, so they should return soon.
// They may call all methods of the KeepAlive.
type KeepAliveOptions struct {
	// TTL is the TTL that a hold has after each extension: [MinHoldTTL] to
	// [MaxHoldTTL]; 0 means 30 s. After a crash of the process, its holds expire after
	// at most this time.
	TTL time.Duration
	// Interval is the time between two extensions: less than TTL; 0 means a third of TTL.
	// A hold must have a TTL longer than the interval when it is added.
	Interval time.Duration
	// Lost is called for a hold that is not open anymore although it was not removed: it
	// has expired, for example because the store was unavailable for longer than TTL, or
	// the key was reset. The work should then stop. The hold is removed before the call.
	// nil means that nothing is called.
	Lost func(*Hold, error)
	// Failed is called if a store could not extend some holds, with the first error of
	// each store and interval. The next interval tries again. nil means that nothing is
	// called.
	Failed func(error)
}

// DefaultKeepAliveTTL is the default of [KeepAliveOptions.TTL].
const DefaultKeepAliveTTL = 30 * time.Second

// KeepAlive extends the holds of this process until they are removed. It extends all
// holds together once for every interval, like [ExtendAll], and has no goroutine and no
// timer while it has no holds. If the process ends, its holds expire after the
// TTL. Create it with [NewKeepAlive]. It may be used concurrently.
type KeepAlive struct {
	opts KeepAliveOptions
	set  *heartbeat.Set[*Hold]
}

// NewKeepAlive returns a KeepAlive without holds. It returns an error that matches
// [ErrInvalidHold] if an option is outside the accepted range. opts may be nil.
func NewKeepAlive(opts *KeepAliveOptions) (*KeepAlive, error) {
	k := &KeepAlive{}
	if opts != nil {
		k.opts = *opts
	}
	if k.opts.TTL == 0 {
		k.opts.TTL = DefaultKeepAliveTTL
	}
	if err := checkTTL(k.opts.TTL); err != nil {
		return nil, err
	}
	if k.opts.Interval == 0 {
		k.opts.Interval = k.opts.TTL / 3
	}
	if k.opts.Interval <= 0 || k.opts.Interval >= k.opts.TTL {
		return nil, fmt.Errorf("%w: interval is %v; must be more than 0 and less than the TTL of %v", ErrInvalidHold, k.opts.Interval, k.opts.TTL)
	}
	k.set = heartbeat.New(k.opts.Interval, k.beat)
	return k, nil
}

// TTL returns the TTL that a hold has after each extension. Open holds with this TTL.
func (k *KeepAlive) TTL() time.Duration { return k.opts.TTL }

// Add extends h at the end of each interval, beginning with the current one, until it is
// removed. h must be open: for a denied hold, and for a hold that was committed or
// cancelled without Remove, Lost is called at the end of the interval. Add does nothing
// for a hold without checks, and after Close.
func (k *KeepAlive) Add(h *Hold) {
	if len(h.checks) > 0 && h.checks[0].Limiter != nil {
		k.set.Add(h)
	}
}

// Remove stops extending h. An extension in progress may still extend it once.
func (k *KeepAlive) Remove(h *Hold) { k.set.Remove(h) }

// Close stops extending all holds, which then expire. It cancels an extension in progress
// and waits for it. It does not wait for Lost or Failed, which may call Close: one call
// of them may still be in progress when Close returns. Later results are not reported.
func (k *KeepAlive) Close() { k.set.Close() }

// extension is the extension of the holds of one store.
type extension struct {
	holds   []*Hold
	results []HoldResult
	err     error
}

// beat extends all holds, and returns a function that calls Lost and Failed.
func (k *KeepAlive) beat(ctx context.Context, holds []*Hold) (report func()) {
	byStore := k.extend(ctx, holds)
	return func() { k.report(ctx, byStore) }
}

// timeout returns the maximum duration of an extension. It is short enough that, if one
// extension fails, the next one ends before the holds expire, although the next interval
// starts only when the failed extension has ended. If the interval is longer than a third
// of the TTL, that is not possible: then the next extension starts before the deadline.
func (k *KeepAlive) timeout() time.Duration {
	if rest := k.opts.TTL - 2*k.opts.Interval; rest >= k.opts.Interval {
		return rest / 3
	}
	return (k.opts.TTL - k.opts.Interval) / 3
}

// extend extends all holds, all stores at the same time: a store that does not answer
// does not delay the others.
func (k *KeepAlive) extend(ctx context.Context, holds []*Hold) map[Store]*extension {
	ctx, cancel := context.WithTimeout(ctx, k.timeout())
	defer cancel()
	byStore := map[Store]*extension{}
	for _, h := range holds {
		store := h.checks[0].Limiter.store
		if byStore[store] == nil {
			byStore[store] = &extension{}
		}
		byStore[store].holds = append(byStore[store].holds, h)
	}
	var work sync.WaitGroup
	for _, e := range byStore {
		work.Go(func() { e.results, e.err = extendAll(ctx, StoreClock, k.opts.TTL, e.holds) })
	}
	work.Wait()
	return byStore
}

// report calls Lost and Failed with the results of an extension. After Close, which
// cancels ctx and removes all holds, it calls neither.
func (k *KeepAlive) report(ctx context.Context, byStore map[Store]*extension) {
	for _, e := range byStore {
		if e.err != nil && k.opts.Failed != nil && ctx.Err() == nil {
			k.opts.Failed(e.err)
		}
		for i := range e.results {
			k.checkLost(e.holds[i], e.results[i].Err)
		}
	}
}

// checkLost removes a hold that is not open.
func (k *KeepAlive) checkLost(h *Hold, err error) {
	if !errors.Is(err, ErrExpiredHold) && !errors.Is(err, ErrUnknownHold) {
		return
	}
	if k.set.Remove(h) && k.opts.Lost != nil {
		k.opts.Lost(h, err)
	}
}

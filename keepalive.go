package headgate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/heartbeat"
)

// maxExtended is the maximum number of limits that one call of a store extends.
const maxExtended = 256

// ExtendAll sets the deadline of each hold to the present time plus ttl, like
// [Hold.Extend]. It returns a result for each hold, whose Err is [ErrExpiredHold] or
// [ErrUnknownHold] if the hold is not open. All holds must use the same store.
// ExtendAll calls the store once for about 256 limits.
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
	results := make([]HoldResult, len(holds))
	for from := 0; from < len(holds); {
		n, err := extendSome(ctx, now, ttl, holds[from:], results[from:])
		if err != nil {
			return nil, err
		}
		from += n
	}
	return results, nil
}

// extendSome extends the first holds with one call of the store. It returns their number,
// also if the call fails.
func extendSome(ctx context.Context, now Instant, ttl time.Duration, holds []*Hold, results []HoldResult) (n int, err error) {
	var all []HoldOp
	var store Store
	for n = 0; n < len(holds) && len(all) < maxExtended; n++ {
		h := holds[n]
		ops, err := opsOf(now, h.checks)
		if err != nil {
			return n + 1, err
		}
		if n == 0 {
			store = h.checks[0].Limiter.store
		}
		if h.checks[0].Limiter.store != store {
			return n + 1, fmt.Errorf("%w: hold %d does not use the same store as hold 1; all holds must use one store", ErrInvalidHold, n+1)
		}
		all = append(all, h.ops(ops)...)
	}
	extended := make([]HoldResult, len(all))
	at, err := applyHoldOps(ctx, store, now, ExtendHold, ttl, all, extended)
	if err != nil {
		return n, err
	}
	for i, h := range holds[:n] {
		limits := 0
		for _, c := range h.checks {
			limits += len(c.Limiter.bounds)
		}
		results[i] = h.extended(at, ttl, extended[:limits])
		extended = extended[limits:]
	}
	return n, nil
}

// extended returns the result of an extension with the results of all its limits.
func (h *Hold) extended(at Instant, ttl time.Duration, limits []HoldResult) HoldResult {
	result, err := combineResults(limits)
	if err == nil {
		h.setExpires(result.Deadline, at, ttl)
	}
	result, err = h.ended(result, at, err)
	result.Err = err
	return result
}

// KeepAliveOptions are the settings of a [KeepAlive]. A field with the zero value has the
// default given in its comment; nil options select all defaults.
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
	// Failed is called with the error of an extension that the store could not execute.
	// The next interval tries again. nil means that nothing is called.
	Failed func(error)
}

// DefaultKeepAliveTTL is the default of [KeepAliveOptions.TTL].
const DefaultKeepAliveTTL = 30 * time.Second

// KeepAlive extends the holds of this process until they are removed. It extends all
// holds together, with one call of each store for every interval, and has no goroutine
// and no timer while it has no holds. If the process ends, its holds expire after the
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

// Add extends h from now on, at the end of each interval. Call Remove before h is
// committed or cancelled. After Close, Add does nothing.
func (k *KeepAlive) Add(h *Hold) {
	if len(h.checks) > 0 && h.checks[0].Limiter != nil {
		k.set.Add(h)
	}
}

// Remove stops extending h. An extension in progress may still extend it once.
func (k *KeepAlive) Remove(h *Hold) { k.set.Remove(h) }

// Close stops extending all holds, which then expire. It cancels an extension in progress
// and waits for it.
func (k *KeepAlive) Close() { k.set.Close() }

// extension is the extension of some holds of one store.
type extension struct {
	holds   []*Hold
	results []HoldResult
	err     error
}

// beat extends all holds, all stores at the same time: a store that does not answer does
// not delay the others.
func (k *KeepAlive) beat(ctx context.Context, holds []*Hold) {
	// short enough for another attempt before the deadline
	ctx, cancel := context.WithTimeout(ctx, (k.opts.TTL-k.opts.Interval)/3)
	defer cancel()
	byStore := map[Store][]*Hold{}
	for _, h := range holds {
		s := h.checks[0].Limiter.store
		byStore[s] = append(byStore[s], h)
	}
	var mu sync.Mutex
	var all []extension
	var work sync.WaitGroup
	for _, own := range byStore {
		work.Go(func() {
			extended := k.extend(ctx, own)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, extended...)
		})
	}
	work.Wait()
	for _, e := range all {
		if e.err != nil && k.opts.Failed != nil {
			k.opts.Failed(e.err)
		}
		for i := range e.results {
			k.checkLost(e.holds[i], e.results[i].Err)
		}
	}
}

// extend extends the holds of one store. If one call fails, the others are made.
func (k *KeepAlive) extend(ctx context.Context, holds []*Hold) (all []extension) {
	for len(holds) > 0 {
		results := make([]HoldResult, len(holds))
		n, err := extendSome(ctx, StoreClock, k.opts.TTL, holds, results)
		e := extension{holds: holds[:n], results: results[:n], err: err}
		if err != nil {
			e.results = nil
		}
		all, holds = append(all, e), holds[n:]
	}
	return all
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

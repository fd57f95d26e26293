package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// reference is a minimal correct store: a map with a lock. With a fault set it does one
// thing wrong.
type reference struct {
	fault fault

	mu     sync.Mutex
	cells  map[string]cell
	closed bool
}

// fault is a mistake that a store could make.
type fault string

const none fault = ""

func (r *reference) has(f fault) bool { return r.fault == f }

// cell is the state of a key: either state or log.
type cell struct {
	state algo.State
	log   *algo.Log
	at    int64          // instant of the last write
	ttl   time.Duration  // 0 if the key is not stored
	limit headgate.Limit // limit of the request that last changed the state
}

func newReference(f fault) *reference { return &reference{fault: f, cells: make(map[string]cell)} }

func (r *reference) Bind(rule headgate.Rule) (headgate.Bound, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed && !r.has(closedStoreDecides) {
		return nil, headgate.ErrClosed
	}
	if r.has(bindsAnything) && rule.Limit == (headgate.Limit{}) {
		rule.Limit = headgate.MustParseLimit("1/s")
	}
	a, err := algo.Named(rule.Algorithm)
	if err != nil {
		return nil, err
	}
	if a.Name.OnlyHolds() {
		return nil, headgate.ErrUnsupported
	}
	b := &refBound{store: r, rule: rule, name: string(a.Name)}
	if a.NewLog != nil {
		b.logs, err = a.NewLog(rule.Limit)
	} else {
		b.step, err = a.New(rule.Limit)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (r *reference) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// begin is the first step of every call. If it returns no error, the lock is held.
func (r *reference) begin(ctx context.Context, now headgate.Instant) (int64, error) {
	r.mu.Lock()
	if r.closed && !r.has(closedStoreDecides) {
		r.mu.Unlock()
		if r.has(closedWrongError) {
			return 0, errors.New("use of a closed map")
		}
		return 0, headgate.ErrClosed
	}
	if err := ctx.Err(); err != nil && !r.has(cancelledContextSpends) {
		r.mu.Unlock()
		return 0, err
	}
	switch {
	case now != headgate.StoreClock:
		return int64(now), nil
	case r.has(clockFrom1970):
		return 0, nil
	default:
		return time.Now().UnixMicro(), nil
	}
}

// pause releases the lock for a moment, as a store does that is not atomic.
func (r *reference) pause() {
	r.mu.Unlock()
	runtime.Gosched()
	r.mu.Lock()
}

type refBound struct {
	store *reference
	rule  headgate.Rule
	name  string // name of the algorithm
	step  algo.Stepper
	logs  algo.LogStepper
}

// id returns the map key of a key's state.
func (b *refBound) id(key string) string {
	scope, name := b.rule.Scope, b.name
	switch b.store.fault {
	case joinsByColon:
		return name + scope + ":" + key
	case joinsByNothing:
		return name + scope + key
	case foldsCase:
		key = strings.ToLower(key)
	case repairsText:
		key = strings.ToValidUTF8(key, "\ufffd")
	case cutsAtNUL:
		key, _, _ = strings.Cut(key, "\x00")
	case trimsKeys:
		key = strings.TrimSpace(key)
	case slotByBraces:
		if _, after, ok := strings.Cut(key, "{"); ok {
			if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
				key = tag
			}
		}
	case cutsLongKeys:
		key = key[:min(len(key), 250)]
	case mergesAlgorithms:
		name = ""
	case separatesAliases:
		name = string(b.rule.Algorithm)
	case limitChangeForgets:
		name += b.rule.Limit.String()
	}
	return fmt.Sprintf("%s %d:%s:%s", name, len(scope), scope, key)
}

func (b *refBound) load(key string, t int64) cell {
	c := b.store.cells[b.id(key)]
	switch {
	case b.store.has(clockBackwardsForgets) && t < c.at:
		return cell{}
	case b.store.has(expiresEarly) && b.step != nil && t+1 >= b.step.ResetAt(c.state):
		return cell{}
	}
	return c
}

func (b *refBound) save(key string, c cell, t int64) {
	before := b.store.cells[b.id(key)]
	if c.at, c.ttl, c.limit = t, b.ttlOf(key, c, t), before.limit; !c.sameState(before) {
		c.limit = b.rule.Limit
	} else if c.ttl != noTTL && !b.store.has(denialShortensTTL) {
		c.ttl = max(c.ttl, before.ttl) // a request that changes nothing does not shorten the TTL
	}
	b.store.cells[b.id(key)] = c
}

// sameState reports whether two cells contain the same state and log.
func (c cell) sameState(other cell) bool {
	return c.state == other.state && slices.Equal(entriesOf(c.log), entriesOf(other.log))
}

// entriesOf returns the instants and the units of the entries of a log.
func entriesOf(log *algo.Log) (entries [][2]int64) {
	if log != nil {
		log.Units(func(at, units int64) bool {
			entries = append(entries, [2]int64{at, units})
			return true
		})
	}
	return entries
}

// copyLog copies a log, so that changing it does not change the stored one.
func copyLog(log *algo.Log) *algo.Log {
	var c algo.Log
	if log != nil {
		log.Units(func(at, units int64) bool {
			c.Append(at, units)
			return true
		})
	}
	return &c
}

func (b *refBound) take(c cell, t, n int64) (cell, bool) {
	if b.store.has(countsOne) && n > 1 && n <= b.Limit() {
		n = 1
	}
	if b.logs != nil {
		c.log = copyLog(c.log)
		ok := b.logs.Take(c.log, t, n, true)
		return c, ok
	}
	s, ok := b.step.Take(c.state, t, n)
	return cell{state: s}, ok
}

func (b *refBound) answer(c cell, t, asked, spent int64, ok bool) headgate.Decision {
	var d headgate.Decision
	if b.logs != nil {
		d = b.logs.Answer(copyLog(c.log), t, asked, ok)
	} else {
		d = b.step.Answer(c.state, t, asked, spent, ok)
	}
	if !ok {
		d.DeniedBy = []string{b.rule.Name}
	}
	return b.misreport(d)
}

func (b *refBound) misreport(d headgate.Decision) headgate.Decision {
	switch {
	case b.store.has(remainingTooHigh) && d.Remaining < d.Limit:
		d.Remaining++
	case b.store.has(retryTooShort) && d.RetryAfter > 0:
		d.RetryAfter -= time.Microsecond
	case b.store.has(retryTooLong) && d.RetryAfter > 0:
		d.RetryAfter += time.Microsecond
	case b.store.has(neverNotSet):
		d.Never = false
	case b.store.has(deniedByEmpty):
		d.DeniedBy = nil
	}
	return d
}

func (b *refBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	t, err := b.store.begin(ctx, now)
	if err != nil {
		return headgate.Decision{}, err
	}
	defer b.store.mu.Unlock()
	c := b.load(key, t)
	if b.store.has(readWriteNotAtomic) || b.store.has(refundNotAtomic) && v == headgate.Refund {
		b.store.pause()
	}
	switch v {
	case headgate.Take:
		d := b.applyTake(key, c, t, cost)
		return d, ctx.Err()
	case headgate.Peek:
		return b.applyPeek(key, c, t, cost), nil
	case headgate.Refund:
		c = b.refund(c, t, cost)
	case headgate.Reset:
		if !b.store.has(resetsNothing) {
			c = cell{}
		}
	}
	b.save(key, c, t)
	return b.answer(c, t, 0, 0, true), nil
}

func (b *refBound) applyTake(key string, c cell, t, cost int64) headgate.Decision {
	if cost == 0 && b.store.has(deniesPeeks) && b.answer(c, t, 0, 0, true).Remaining == 0 {
		cost = 1
	}
	next, ok := b.take(c, t, cost)
	if !ok && b.store.has(denialConsumes) {
		next, _ = b.take(c, t, 1)
	}
	if !ok && b.store.has(denialConverts) && c.limit != b.rule.Limit && b.answer(c, t, 0, 0, true).Remaining == 0 {
		next, _ = b.take(cell{}, t, b.Limit())
	}
	b.save(key, next, t)
	if !ok {
		return b.answer(next, t, cost, 0, false)
	}
	return b.answer(next, t, cost, cost, true)
}

func (b *refBound) applyPeek(key string, c cell, t, cost int64) headgate.Decision {
	next, ok := b.take(c, t, cost)
	if b.store.has(peekSpends) && ok {
		b.save(key, next, t)
	}
	if b.store.has(peekDropsExpired) {
		b.save(key, b.withoutExpired(c, t), t)
	}
	if cost > 0 && b.store.has(peekAlwaysAllows) && cost <= b.Limit() {
		ok = true
	}
	now, _ := b.take(c, t, 0)
	return b.answer(now, t, cost, 0, ok)
}

// withoutExpired removes the units of a cell that no longer count at t.
func (b *refBound) withoutExpired(c cell, t int64) cell {
	if b.logs != nil {
		c.log = copyLog(c.log)
		b.logs.Answer(c.log, t, 0, true)
	} else if b.step.ResetAt(c.state) <= t {
		return cell{}
	}
	return c
}

func (b *refBound) refund(c cell, t, n int64) cell {
	switch {
	case b.store.has(refundForgets):
		return cell{}
	case b.store.has(refundsNothing):
		return c
	case b.store.has(refundsTwice):
		n = min(n, b.Limit()) * 2
	}
	if b.logs != nil {
		c.log = copyLog(c.log)
		b.logs.Refund(c.log, t, n)
		return c
	}
	return cell{state: b.step.Refund(c.state, t, n)}
}

func (b *refBound) Limit() int64 {
	if b.logs != nil {
		return b.rule.Limit.Rate
	}
	return b.step.Answer(algo.State{}, 0, 0, 0, true).Limit
}

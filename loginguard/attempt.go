package loginguard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/root"
	"github.com/headgate/headgate/internal/turn"
)

// Client is the client of an attempt.
type Client struct {
	// Addr is the client's address, or the zero Addr if the address is unknown. All
	// clients without an address share the limits of one address. They can be known by
	// a device only, never by an address.
	Addr netip.Addr
	// Account is the account as the client entered it; it need not exist. It is empty
	// if the attempt has no account.
	Account string
	// Device is the token that [Attempt.Device] returned after an earlier success, or
	// empty.
	Device string
}

// Attempt is one guess, such as a login with a password. It is charged when it is
// created, and the charge is cancelled when it succeeds. Its methods may be called
// concurrently.
type Attempt struct {
	guard         *Guard
	ctx           context.Context  // the context of the attempt
	now           headgate.Instant // the time of the attempt
	client        Client           // the client, with its account normalised
	nonce         []byte           // the nonce of the client's device token; nil without a valid token
	keys          attemptKeys
	decision      headgate.Decision
	deniedBy      []string
	charged       admission.Batch
	endFailed     []int // indexes of the ops in charged whose holds a failure ends
	unmarkedParts int64 // units that remain in the pair's bucket in Guard.known
	known         bool
	exempt        bool
	finished      atomic.Bool
}

// attemptKeys are the keys, in the store, of the limits that apply to an attempt.
type attemptKeys struct {
	account, address, subnet string
	// hash of the account and the device or address; failures are charged to this key
	pair        string
	addressPair string // hash of the account and the address; a success makes this pair known
}

// Attempt charges an attempt on all limits that apply to it, or on none of them if one
// denies. The current time is the store's time. Verify the guess only if
// [Attempt.Allowed] returns true, then call [Attempt.Succeeded] or [Attempt.Failed]. An
// error means that the store could not decide. Attempt takes up to two round trips.
func (g *Guard) Attempt(ctx context.Context, c Client) (*Attempt, error) {
	return g.attempt(ctx, headgate.StoreClock, c)
}

// AttemptAt is like [Guard.Attempt], with the given time as the current time.
func (g *Guard) AttemptAt(ctx context.Context, now time.Time, c Client) (*Attempt, error) {
	if err := checkInstant(headgate.InstantOf(now)); err != nil {
		return nil, err
	}
	return g.attempt(ctx, headgate.InstantOf(now), c)
}

func (g *Guard) attempt(ctx context.Context, now headgate.Instant, c Client) (*Attempt, error) {
	c.Account = g.opts.Normalize(c.Account)
	a := &Attempt{guard: g, ctx: ctx, now: now, client: c}
	a.setKeys(now)
	if a.exempt = g.isAllowlisted(c.Addr); a.exempt {
		a.decision.Allowed = true
		return a, nil
	}
	if err := a.charge(ctx, now); err != nil {
		g.observe(a.event(KindError, err))
		return nil, err
	}
	if !a.decision.Allowed {
		g.observe(a.event(KindDenied, nil))
	}
	return a, nil
}

// setKeys computes the keys of the attempt and verifies its device token at the instant
// now. A valid token makes the attempt known.
func (a *Attempt) setKeys(now headgate.Instant) {
	g, c := a.guard, a.client
	address := prefixText(g.address(c.Addr))
	a.keys.address = g.digest("address", address)
	a.keys.subnet = g.digest("subnet", prefixText(g.subnet(c.Addr)))
	if c.Account == "" {
		return
	}
	a.keys.account = g.digest("account", c.Account)
	a.keys.addressPair = g.digest("pair", address, c.Account)
	a.keys.pair = a.keys.addressPair
	if a.nonce = g.verifyToken(c.Device, a.keys.account, now); a.nonce != nil {
		a.known = true
		a.keys.pair = g.digest("device", string(a.nonce), c.Account)
	}
}

// charge looks up whether the pair is known, then charges the limits of the attempt.
// The store operations are the same for every account, whether it exists or not. A
// client without an address can be known by its device only: otherwise an account that
// became known for one client without an address would be known for all of them.
func (a *Attempt) charge(ctx context.Context, now headgate.Instant) error {
	if err := checkInstant(now); err != nil {
		return err
	}
	if a.client.Account != "" && a.client.Addr.IsValid() {
		d, err := peek(ctx, a.guard.known, now, a.keys.addressPair)
		if err != nil {
			return err
		}
		if d.Degraded == headgate.ReasonNone { // with a reason, the decision was not made by the store
			a.known = a.known || d.Remaining < d.Limit
			a.unmarkedParts = d.Remaining
		}
	}
	a.addLimits()
	if len(a.charged.Ops) == 0 {
		a.decision.Allowed = true
		return nil
	}
	if err := a.charged.Hold(ctx, a.guard.store, now, outcomeTTL); err != nil {
		return err
	}
	a.decision = root.Combine(a.charged.Decisions)
	for _, name := range a.decision.DeniedBy {
		if scope := a.guard.scopes[name]; !slices.Contains(a.deniedBy, scope) {
			a.deniedBy = append(a.deniedBy, scope)
		}
	}
	return nil
}

// addLimits adds the limits that apply to the attempt. For a known pair these are only
// the limits of the pair, so that other clients cannot lock it out.
func (a *Attempt) addLimits() {
	add := func(scope, key string) {
		for _, limit := range a.guard.limits[scope] {
			if limit.endFailed {
				a.endFailed = append(a.endFailed, len(a.charged.Ops))
			}
			a.charged.Add(limit.Bound, false, key, 1)
		}
	}
	if a.client.Account != "" {
		add(ScopePair, a.keys.pair)
	}
	if a.known {
		return
	}
	if a.client.Account != "" {
		add(ScopeAccount, a.keys.account)
	}
	add(ScopeAddress, a.keys.address)
	add(ScopeSubnet, a.keys.subnet)
	add(ScopeTotal, "")
}

// Allowed reports whether the attempt is allowed.
func (a *Attempt) Allowed() bool { return a.decision.Allowed }

// RetryAfter returns 0 if the attempt is allowed. Otherwise it returns the wait after
// which the attempt is allowed if there are no other attempts, rounded up to a
// microsecond. 0 for a denied attempt means that no wait helps.
func (a *Attempt) RetryAfter() time.Duration { return a.decision.RetryAfter }

// Known reports whether an earlier attempt for the same account, from the same address
// or device, succeeded within [Options.KnownFor]. Do not disclose it to the client.
func (a *Attempt) Known() bool { return a.known }

// DeniedBy returns the scopes of the limits that denied, without duplicates: pair,
// account, address, subnet, total. Do not disclose them to the client.
func (a *Attempt) DeniedBy() []string { return a.deniedBy }

// Failed reports that the guess was wrong. The attempt stays charged, and the observer is
// notified. Failed does nothing if the attempt was denied or an outcome was already
// reported. With the default limits, Failed makes no store call. If a limit allows more
// than 1,000 attempts in a minute, Failed takes one round trip of at most a second, to
// end the hold under this limit. The charge stays even if this call fails.
func (a *Attempt) Failed() { a.keepCharge(KindFailed) }

// keepCharge ends the attempt, keeps its charge, and notifies the observer.
func (a *Attempt) keepCharge(kind EventKind) {
	if a.Allowed() && !a.finished.Swap(true) {
		a.endHolds()
		a.guard.observe(a.event(kind, nil))
	}
}

// endHolds ends the holds under the limits that allow many attempts, so that a key has
// few open holds, and keeps the charge.
func (a *Attempt) endHolds() {
	if len(a.endFailed) == 0 || !a.charged.IsHeld() {
		return
	}
	ctx, done := turn.Detached(a.ctx)
	defer done()
	// A hold that stays open after an error expires, and its charge stays, too.
	_ = a.charged.CommitFull(ctx, a.guard.store, a.now, a.endFailed)
}

// Succeeded reports that the guess was right: the pair becomes known, and the limits are
// as if the attempt had not been charged. It does nothing if the attempt was denied or
// an outcome was already reported. More than a minute after the attempt, its charge
// stays and counts as a failure. It also stays if the store did not record the success,
// which an error reports. Succeeded takes one round trip, or two if the middleware judged
// the success by the response status.
func (a *Attempt) Succeeded(ctx context.Context) error {
	return a.succeed(ctx, headgate.StoreClock, true)
}

// SucceededAt is like [Attempt.Succeeded], with the given time as the current time.
func (a *Attempt) SucceededAt(ctx context.Context, now time.Time) error {
	return a.succeed(ctx, headgate.InstantOf(now), true)
}

// succeed implements Succeeded and SucceededAt. certain is false if the success is
// judged by the response status only; its number is then limited.
func (a *Attempt) succeed(ctx context.Context, now headgate.Instant, certain bool) error {
	if !a.Allowed() || a.finished.Swap(true) {
		return nil
	}
	kind, err := KindSucceeded, error(nil)
	if !a.exempt {
		kind, err = a.cancelCharge(ctx, now, certain)
	}
	if err != nil {
		kind = KindError
	}
	a.guard.observe(a.event(kind, err))
	return err
}

func (a *Attempt) cancelCharge(ctx context.Context, now headgate.Instant, certain bool) (EventKind, error) {
	if err := checkInstant(now); err != nil {
		return KindError, err
	}
	if !certain && a.client.Account != "" {
		d, err := allow(ctx, a.guard.statusSuccesses, now, a.keys.account, 1)
		if err != nil {
			return KindUnconfirmed, err
		}
		if !d.Allowed {
			a.endHolds()
			return KindUnconfirmed, nil
		}
	}
	var held, marked error
	var wait sync.WaitGroup
	if a.charged.IsHeld() {
		wait.Go(func() { held = a.charged.Commit(ctx, a.guard.store, now, make([]int64, len(a.charged.Ops))) })
	}
	// Mark the pair as known by spending the rest of its bucket. A denial is not an
	// error: a concurrent success has already made the pair known.
	if a.unmarkedParts > 0 {
		_, marked = allow(ctx, a.guard.known, now, a.keys.addressPair, a.unmarkedParts)
	}
	wait.Wait()
	if errors.Is(held, headgate.ErrUnknownHold) || errors.Is(held, headgate.ErrExpiredHold) {
		held = nil // too late: the charge stays
	}
	return KindSucceeded, errors.Join(held, marked)
}

// allow calls AllowAt with the instant now, or AllowN if now is [headgate.StoreClock].
func allow(
	ctx context.Context, l *headgate.Limiter, now headgate.Instant, key string, cost int64,
) (headgate.Decision, error) {
	if now == headgate.StoreClock {
		return l.AllowN(ctx, key, cost)
	}
	return l.AllowAt(ctx, now.Time(), key, cost)
}

// peek returns the decision for a request of cost 0 at the instant now, or at the
// store's time if now is [headgate.StoreClock], and spends nothing.
func peek(
	ctx context.Context, l *headgate.Limiter, now headgate.Instant, key string,
) (headgate.Decision, error) {
	if now == headgate.StoreClock {
		return l.PeekN(ctx, key, 0)
	}
	return l.PeekAt(ctx, now.Time(), key, 0)
}

func checkInstant(now headgate.Instant) error {
	if now.Valid() {
		return nil
	}
	return fmt.Errorf("loginguard: %w: %d µs; must be 0 (1970) to %d (2155)", headgate.ErrInvalidInstant, now, headgate.MaxInstant)
}

// event returns an event about the attempt, of the given kind and with err.
func (a *Attempt) event(kind EventKind, err error) Event {
	e := Event{
		Kind: kind, Account: a.keys.account, Address: a.keys.address, Subnet: a.keys.subnet,
		Known: a.known, DeniedBy: a.deniedBy, RetryAfter: a.decision.RetryAfter, Err: err,
	}
	if a.guard.opts.PlainEvents {
		e.Account = a.client.Account
		e.Address, e.Subnet = prefixText(a.guard.address(a.client.Addr)), prefixText(a.guard.subnet(a.client.Addr))
	}
	return e
}

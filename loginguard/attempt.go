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
)

// Client is who tries.
type Client struct {
	Addr    netip.Addr // the zero Addr if there is none; all such clients are one, and not known by their address
	Account string     // as typed, existing or not; empty if there is none
	Device  string     // what [Attempt.Device] gave out after an earlier success, if anything
}

// Attempt is one try: charged when it is made, and refunded when it succeeds. Its methods may be called concurrently.
type Attempt struct {
	guard    *Guard
	client   Client // the account normalised
	nonce    []byte // of the device, if it is one of ours
	keys     attemptKeys
	decision headgate.Decision
	deniedBy []string
	charged  admission.Batch
	unmarkedParts int64 // units left in the bucket that makes the pair known
	known    bool
	exempt   bool
	finished  atomic.Bool
}

// subjects are the keys of a try.
type attemptKeys struct {
	account, address, subnet string
	pair                     string // whose failures a try is: the device's or the address', with the account
	addressPair                     string // the address with the account, which becomes known
}

// Attempt charges a try on all limits that hold for it, or on none if one denies, at the store's own time. Run what it protects
// only if it is [Attempt.Allowed], and then say how it ended. An error means that the store could not decide. It takes two round
// trips.
func (g *Guard) Attempt(ctx context.Context, c Client) (*Attempt, error) {
	return g.attempt(ctx, headgate.StoreClock, c)
}

// AttemptAt is [Guard.Attempt] at the time now.
func (g *Guard) AttemptAt(ctx context.Context, now time.Time, c Client) (*Attempt, error) {
	return g.attempt(ctx, headgate.InstantOf(now), c)
}

func (g *Guard) attempt(ctx context.Context, now headgate.Instant, c Client) (*Attempt, error) {
	c.Account = g.opts.Normalize(c.Account)
	a := &Attempt{guard: g, client: c}
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

// name finds the keys.
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

// charge peeks whether the pair is known, and takes from its limits. It does the same for every account, existing or not. A
// client without an address is known only by its device: otherwise an account that is known without an address would be known
// to all clients without one.
func (a *Attempt) charge(ctx context.Context, now headgate.Instant) error {
	if err := checkInstant(now); err != nil {
		return err
	}
	if a.client.Account != "" && a.client.Addr.IsValid() {
		mark, err := peek(ctx, a.guard.known, now, a.keys.addressPair)
		if err != nil {
			return err
		}
		if mark.Degraded == headgate.ReasonNone { // else it is not the store that says so
			a.known = a.known || mark.Remaining < mark.Limit
			a.unmarkedParts = mark.Remaining
		}
	}
	a.addLimits()
	if len(a.charged.Ops) == 0 {
		a.decision.Allowed = true
		return nil
	}
	a.charged.MarkTaken(now)
	if err := a.charged.Take(ctx, a.guard.store, now); err != nil {
		return err
	}
	a.decision = root.Combine(a.charged.Decisions)
	for _, name := range a.decision.DeniedBy {
		if kind := a.guard.scopes[name]; !slices.Contains(a.deniedBy, kind) {
			a.deniedBy = append(a.deniedBy, kind)
		}
	}
	return nil
}

// addLimits adds those that hold for this try: a known pair answers for itself alone, so that nobody else can lock it out.
func (a *Attempt) addLimits() {
	add := func(kind, key string) {
		for _, bound := range a.guard.limits[kind] {
			a.charged.Add(bound, false, key, 1)
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

// Allowed reports whether the try may go ahead.
func (a *Attempt) Allowed() bool { return a.decision.Allowed }

// RetryAfter is 0 if the try is allowed, else the wait after which it is if nobody else tries; rounded up to a microsecond.
func (a *Attempt) RetryAfter() time.Duration { return a.decision.RetryAfter }

// Known reports whether the account was logged in to before from this address or device. Do not tell the client.
func (a *Attempt) Known() bool { return a.known }

// DeniedBy names the kinds of limits that denied, each once: pair, account, address, subnet, total. Do not tell the client.
func (a *Attempt) DeniedBy() []string { return a.deniedBy }

// Failed reports that the guess was wrong. The try stays charged, so Failed only notifies the observer. Only the first report on
// a try counts, and none on a try that was denied.
func (a *Attempt) Failed() { a.keepCharge(KindFailed) }

// keep leaves the try charged.
func (a *Attempt) keepCharge(kind EventKind) {
	if a.Allowed() && !a.finished.Swap(true) {
		a.guard.observe(a.event(kind, nil))
	}
}

// Succeeded reports that the guess was right: the charge is refunded, once, and the pair is known from now on. Only the first
// report on a try counts, and none on a try that was denied. An error means that the store did not record it; the charge then
// counts as a failure until it expires like any other. It takes up to two round trips, as all limits are refunded concurrently.
func (a *Attempt) Succeeded(ctx context.Context) error {
	return a.succeed(ctx, headgate.StoreClock, true)
}

// SucceededAt is [Attempt.Succeeded] at the time now.
func (a *Attempt) SucceededAt(ctx context.Context, now time.Time) error {
	return a.succeed(ctx, headgate.InstantOf(now), true)
}

// succeed is SucceededAt; certain is false if only a status says that it did.
func (a *Attempt) succeed(ctx context.Context, now headgate.Instant, certain bool) error {
	if !a.Allowed() || a.finished.Swap(true) {
		return nil
	}
	kind, err := KindSucceeded, error(nil)
	if !a.exempt {
		kind, err = a.refund(ctx, now, certain)
	}
	if err != nil {
		kind = KindError
	}
	a.guard.observe(a.event(kind, err))
	return err
}

func (a *Attempt) refund(ctx context.Context, now headgate.Instant, certain bool) (EventKind, error) {
	if err := checkInstant(now); err != nil {
		return KindError, err
	}
	if !certain && a.client.Account != "" {
		d, err := allow(ctx, a.guard.statusSuccesses, now, a.keys.account, 1)
		if err != nil || !d.Allowed {
			return KindUnconfirmed, err
		}
	}
	charges := len(a.charged.Ops)
	errs := make([]error, charges+1)
	var wait sync.WaitGroup
	for i := range charges {
		wait.Go(func() { _, _, errs[i] = a.charged.Release(ctx, now, i, 1) })
	}
	if a.unmarkedParts > 0 { // denied if another success was faster, which is as good
		_, errs[charges] = allow(ctx, a.guard.known, now, a.keys.addressPair, a.unmarkedParts)
	}
	wait.Wait()
	return KindSucceeded, errors.Join(errs...)
}

// allow is AllowAt, or AllowN for [headgate.StoreClock].
func allow(
	ctx context.Context, l *headgate.Limiter, now headgate.Instant, key string, cost int64,
) (headgate.Decision, error) {
	if now == headgate.StoreClock {
		return l.AllowN(ctx, key, cost)
	}
	return l.AllowAt(ctx, now.Time(), key, cost)
}

// peek peeks with cost 0 at now, or at the time of the store for [headgate.StoreClock].
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

// event returns what the observer receives for the try.
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

package admin

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/audit"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// The bounds of an inspection.
const (
	maxInspected   = 50 // policies in one response
	defaultRecords = 20
	maxRecords     = 1000
	maxSkip        = 100_000
)

// keyRequest are the fields that all requests about a key have.
type keyRequest struct {
	Key       *string `json:"key"`
	Policy    string  `json:"policy"`
	Limit     string  `json:"limit"`
	Algorithm string  `json:"algorithm"`
}

// check returns the check of a request. all is whether the request may leave out both
// the policy and the limit.
func (k *keyRequest) check(cost int64, all bool) (engine.Check, error) {
	switch {
	case k.Key == nil:
		return engine.Check{}, badRequest("key", `field "key" is required (it may be an empty string)`)
	case k.Policy != "" && k.Limit != "":
		return engine.Check{}, badRequest("limit", `field "limit" is not allowed next to policy, which has its own limits; send one of them`)
	case k.Limit == "" && k.Algorithm != "":
		return engine.Check{}, badRequest("algorithm", `field "algorithm" is allowed only with limit`)
	case !all && k.Policy == "" && k.Limit == "":
		return engine.Check{}, badRequest("policy", `field "policy" or "limit" is required`)
	}
	// Composed: a key that a proxy or Envoy composes may be longer than those of clients.
	return engine.Check{Policy: k.Policy, Limit: k.Limit, Algorithm: k.Algorithm, Key: *k.Key, Cost: cost, Composed: true}, nil
}

func checkReason(reason string) error {
	if n := len(reason); n > maxReasonBytes {
		return badRequest("reason", `field "reason" has %d bytes; must be at most %d`, n, maxReasonBytes)
	}
	return nil
}

// KeyState is the state of a key under one policy or inline limit.
type KeyState struct {
	Policy   string       `json:"policy"`
	Hash     string       `json:"hash"`
	Allowed  *bool        `json:"allowed,omitempty"` // nil if the store has not decided
	Mode     string       `json:"mode"`
	Source   Source       `json:"source"`
	Ban      *BanState    `json:"ban,omitempty"` // nil if the policy has no bans for the key
	Degraded string       `json:"degraded,omitempty"`
	Error    string       `json:"error,omitempty"`
	Limits   []LimitState `json:"limits"`
}

// Source is where the limits of a key are from.
type Source struct {
	Kind    string    `json:"kind"` // policy, file or store
	Target  string    `json:"target,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Author  string    `json:"author,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created,omitzero"`
}

// LimitState is the state of a key under one limit.
type LimitState struct {
	Limit      string    `json:"limit"`
	Algorithm  string    `json:"algorithm"`
	Capacity   int64     `json:"capacity"`
	Remaining  int64     `json:"remaining"`
	Allowed    bool      `json:"allowed"`
	RetryAfter int64     `json:"retry_after_ms"`
	ResetAfter int64     `json:"reset_after_ms"`
	ResetAt    time.Time `json:"reset_at"`
	Window     *Window   `json:"window,omitempty"`
	Leased     bool      `json:"leased,omitempty"`
	Holds      *Records  `json:"holds,omitempty"`
	Leases     *Records  `json:"leases,omitempty"`
}

// Window is the present window of a limit.
type Window struct {
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
}

// Records are open holds or leases of a key.
type Records struct {
	Open  int      `json:"open"`
	Units int64    `json:"units"`
	List  []Record `json:"list"`
}

// Record is one open hold or lease.
type Record struct {
	IDHash   string    `json:"id_hash"`
	Units    int64     `json:"units"`
	Deadline time.Time `json:"deadline"`
	Begin    time.Time `json:"begin,omitzero"`
}

// inspectRequest is a request for the state of a key.
type inspectRequest struct {
	keyRequest
	Holds *int   `json:"holds"`
	Skip  int    `json:"skip"`
	After string `json:"after"`
}

// Inspected is the state of a key under several policies.
type Inspected struct {
	Policies []KeyState `json:"policies"`
	Next     string     `json:"next,omitempty"`
}

// page returns which holds are listed.
func (in *inspectRequest) page() (engine.HoldPage, error) {
	page := engine.HoldPage{List: true, Skip: in.Skip, Max: defaultRecords}
	if in.Holds != nil {
		page.Max = *in.Holds
	}
	switch {
	case page.Max < 0 || page.Max > maxRecords:
		return page, badRequest("holds", `field "holds" is %d; must be 0 to %d`, page.Max, maxRecords)
	case page.Skip < 0 || page.Skip > maxSkip:
		return page, badRequest("skip", `field "skip" is %d; must be 0 to %d`, page.Skip, maxSkip)
	}
	return page, nil
}

func (c *call) inspect() (any, error) {
	in, err := decode[inspectRequest](c.body)
	if err != nil {
		return nil, err
	}
	check, err := in.check(1, true)
	if err != nil {
		return nil, err
	}
	page, err := in.page()
	if err != nil {
		return nil, err
	}
	active := c.Engine.ActiveConfig()
	if check.Policy != "" || check.Limit != "" {
		state, err := c.stateOf(active, &check, page)
		return Inspected{Policies: []KeyState{state}}, err
	}
	out := Inspected{Policies: []KeyState{}}
	for _, name := range active.PolicyNames() {
		if in.After != "" && name <= in.After {
			continue
		}
		if len(out.Policies) == maxInspected {
			out.Next = out.Policies[maxInspected-1].Policy
			break
		}
		check.Policy = name
		state, err := c.stateOf(active, &check, page)
		if err != nil {
			return nil, err
		}
		out.Policies = append(out.Policies, state)
	}
	return out, nil
}

// stateOf returns the state of the key of a check.
func (c *call) stateOf(active *engine.ActiveConfig, check *engine.Check, page engine.HoldPage) (KeyState, error) {
	x, err := active.Inspect(c.ctx, check, page)
	if err != nil {
		return KeyState{}, err
	}
	state := KeyState{Policy: x.Policy, Hash: c.Hash(check.Policy, check.Key), Mode: "on", Source: c.sourceOf(check, &x), Limits: []LimitState{}}
	if x.Shadow {
		state.Mode = "shadow"
	}
	if x.Err != nil {
		state.Error = engine.Reason(x.Err)
		if errors.Is(x.Err, headgate.ErrClosed) {
			return KeyState{}, x.Err
		}
	}
	now, allowed := time.Now(), true
	for i := range x.Limits {
		l := &x.Limits[i]
		allowed = allowed && l.Allowed
		if l.Degraded != headgate.ReasonNone {
			state.Degraded = l.Degraded.String()
		}
		state.Limits = append(state.Limits, limitStateOf(l, now))
	}
	if x.Err == nil {
		if state.Ban, err = c.banOf(active, check, &x, now); err != nil {
			state.Error = engine.Reason(err)
			return state, nil
		}
		allowed = allowed && (state.Ban == nil || !state.Ban.Banned)
		state.Allowed = &allowed
	}
	return state, nil
}

// sourceOf returns where the limits of a key are from.
func (c *call) sourceOf(check *engine.Check, x *engine.Inspection) Source {
	switch {
	case x.Override == "":
		return Source{Kind: "policy"}
	case !x.Live:
		return Source{Kind: "file", Target: x.Override}
	}
	source := Source{Kind: "store", Target: x.Override}
	for _, e := range c.Overrides.List().Entries {
		if e.Policy == check.Policy && e.Target == x.Override {
			source.Until, source.Author, source.Reason, source.Created = e.Until, e.Author, e.Reason, e.Created
		}
	}
	return source
}

func limitStateOf(l *engine.LimitState, now time.Time) LimitState {
	result := engine.Result{Decision: l.Decision, Rule: l.Rule}
	out := LimitState{
		Limit: l.Rule.Text(), Algorithm: string(l.Rule.Algorithm), Capacity: l.Rule.Capacity(), Remaining: l.Remaining, Allowed: l.Allowed,
		RetryAfter: millis(l.RetryAfter), ResetAfter: millis(l.ResetAfter), ResetAt: result.ResetAt(now).UTC(), Leased: l.Leased,
	}
	if begin, end, ok := l.Rule.Window(now); ok {
		out.Window = &Window{begin.UTC(), end.UTC()}
	}
	if l.Holds != nil {
		out.Holds = &Records{l.Holds.Holds, l.Holds.Held, []Record{}}
		out.Leases = &Records{l.Holds.Leases, l.Holds.Leased, []Record{}}
		for i := range l.Holds.Records {
			r := &l.Holds.Records[i]
			record := Record{IDHash: fmt.Sprintf("%x", r.ID[:idHashBytes]), Units: r.Units, Deadline: r.Deadline.Time()}
			if r.Begin != 0 {
				record.Begin = r.Begin.Time()
			}
			to := out.Holds
			if r.Lease {
				to = out.Leases
			}
			to.List = append(to.List, record)
		}
	}
	return out
}

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Changed is the state of a key before and after a change.
type Changed struct {
	Before KeyState `json:"before"`
	After  KeyState `json:"after"`
}

// changeRequest is a request that changes a key.
type changeRequest struct {
	keyRequest
	Reason string `json:"reason"`
}

// costRequest is a request that refunds or debits units.
type costRequest struct {
	changeRequest
	Cost *int64 `json:"cost"`
}

func (c *call) reset() (any, error) {
	in, err := decode[changeRequest](c.body)
	if err != nil {
		return nil, err
	}
	return c.change("reset", &in, 0, func(active *engine.ActiveConfig, checks []engine.Check, a *engine.Answer) error {
		return active.Decide(c.ctx, headgate.Reset, checks, a)
	})
}

func (c *call) refund() (any, error) {
	return c.changeUnits("refund", func(active *engine.ActiveConfig, checks []engine.Check, a *engine.Answer) error {
		return active.Decide(c.ctx, headgate.Refund, checks, a)
	})
}

func (c *call) debit() (any, error) {
	return c.changeUnits("debit", func(active *engine.ActiveConfig, checks []engine.Check, a *engine.Answer) error {
		return active.Debit(c.ctx, headgate.StoreClock, checks, a)
	})
}

type applyChange func(*engine.ActiveConfig, []engine.Check, *engine.Answer) error

// changeUnits executes a request with a cost.
func (c *call) changeUnits(action string, apply applyChange) (any, error) {
	in, err := decode[costRequest](c.body)
	if err != nil {
		return nil, err
	}
	cost := int64(1)
	if in.Cost != nil {
		cost = *in.Cost
	}
	if cost < 0 || cost > headgate.MaxWindowUnits {
		return nil, badRequest("cost", `field "cost" is %d; must be 0 to %d`, cost, int64(headgate.MaxWindowUnits))
	}
	return c.change(action, &in.changeRequest, cost, apply)
}

// change executes a request that changes a key, and adds it to the audit.
func (c *call) change(action string, in *changeRequest, cost int64, apply applyChange) (any, error) {
	check, err := in.check(cost, false)
	if err != nil {
		return nil, err
	}
	if err := checkReason(in.Reason); err != nil {
		return nil, err
	}
	active, peek := c.Engine.ActiveConfig(), check
	peek.Cost = 1
	var out Changed
	if out.Before, err = c.stateOf(active, &peek, engine.HoldPage{}); err != nil {
		return nil, err
	}
	if err := apply(active, []engine.Check{check}, new(engine.Answer)); err != nil {
		return nil, err
	}
	if out.After, err = c.stateOf(active, &peek, engine.HoldPage{}); err != nil {
		return nil, err
	}
	if action != "reset" {
		action = fmt.Sprintf("%s %d", action, cost)
	}
	c.record(audit.Entry{
		Action: action, Policy: check.Policy, Key: c.shownKey(check.Policy, check.Key), Reason: in.Reason,
		Before: summary(&out.Before), After: summary(&out.After),
	})
	return out, nil
}

// record adds a change to the audit.
func (c *call) record(entries ...audit.Entry) {
	for i := range entries {
		entries[i].Author = c.client.Name
	}
	c.Audit.Add(c.ctx, time.Now(), entries...)
}

// shownKey returns a key as the audit shows it.
func (c *call) shownKey(policy, key string) string {
	if c.ShowKeys {
		return key
	}
	return c.Hash(policy, key)
}

// summary returns the state of a key in one line.
func summary(s *KeyState) string {
	if s.Error != "" {
		return s.Error
	}
	texts := make([]string, len(s.Limits))
	for i, l := range s.Limits {
		texts[i] = fmt.Sprintf("%s: %d of %d left", l.Limit, l.Remaining, l.Capacity)
	}
	return strings.Join(texts, "; ")
}

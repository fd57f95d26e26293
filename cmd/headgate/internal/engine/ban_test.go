package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

var threeStrikes = engine.Ban{After: 3, Within: time.Minute, For: time.Minute, Max: 3 * time.Minute, Forget: time.Hour}

// strikes reports the denials of a request to the bans of its policy, like package bans.
type strikes struct {
	t     *testing.T
	at    headgate.Instant
	begun []engine.Banned
}

func (s *strikes) Begin() int64 { return 1 }

func (s *strikes) Observe(e *engine.Event) {
	for i := range e.Rules() {
		if rules, banned := e.Ban(i); rules != nil && !banned && e.Denied(i) {
			b, err := rules.Count(s.t.Context(), s.at, e.Key(i), 1)
			if err != nil {
				s.t.Error(err)
			}
			if b.For > 0 {
				s.begun = append(s.begun, b)
			}
			return
		}
	}
}

func take(t *testing.T, e *engine.Engine, s *strikes, at headgate.Instant, key string) engine.Answer {
	t.Helper()
	s.at = at
	var a engine.Answer
	if err := e.DecideAt(t.Context(), at, headgate.Take, []engine.Check{{Policy: "p", Key: key, Cost: 1}}, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// A key that is denied often enough is denied for exactly the duration of the ban, which
// doubles with each further ban up to the maximum, and is forgotten.
func TestBanDoublesAndEnds(t *testing.T) {
	t.Parallel()
	policy := headgate.MustPolicy("1/1s")
	policy.Algorithm = headgate.FixedWindow
	plain, _ := newPolicyEngine(t, policy, engine.PolicyOptions{Ban: threeStrikes}, "")
	s := &strikes{t: t}
	e := plain.WithObserver(s, 0)
	at := start
	for n, want := range []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 3 * time.Minute} {
		if a := take(t, e, s, at, "k"); !a.Allowed || a.Limit != 1 || len(a.Rules) != 1 {
			t.Fatalf("before ban %d: got %+v of %d rules want allowed of 1", n+1, a.Decision, len(a.Rules))
		}
		at++ // a request and a ban in the same microsecond add up to one more
		for range 3 {
			if a := take(t, e, s, at, "k"); a.Allowed || a.DeniedBy[0] != "p" {
				t.Fatalf("got %+v want denied by p", a.Decision)
			}
		}
		if len(s.begun) != n+1 || s.begun[n].For != want || s.begun[n].Level != int64(min(n+1, 3)) {
			t.Fatalf("got bans %+v want number %d for %v", s.begun, n+1, want)
		}
		later := at + headgate.Instant(5*time.Second/time.Microsecond)
		a := take(t, e, s, later, "k")
		if a.Allowed || a.DeniedBy[0] != "p:ban" || a.RetryAfter != want-5*time.Second || a.Limit != 1 || a.Remaining != 0 {
			t.Fatalf("during ban %d: got %+v want denied by p:ban for %v", n+1, a.Decision, want-5*time.Second)
		}
		if a := take(t, e, s, later, "other"); !a.Allowed {
			t.Fatal("another key is denied")
		}
		end := at + headgate.Instant(want/time.Microsecond)
		if a := take(t, e, s, end-1, "k"); a.Allowed {
			t.Fatal("one microsecond before the end of the ban: allowed")
		}
		at = end + 10_000 // the bucket of the ban is full
	}
	at += headgate.Instant(4 * time.Hour / time.Microsecond)
	for range 4 {
		take(t, e, s, at, "k")
	}
	if last := s.begun[len(s.begun)-1]; last.Level != 1 || last.For != time.Minute {
		t.Errorf("after the time to forget: got %+v want level 1", last)
	}
}

// The denials of a banned key do not count, and a reset ends the ban and forgets all.
func TestBanResetAndState(t *testing.T) {
	t.Parallel()
	plain, _ := newPolicyEngine(t, headgate.MustPolicy("1/1h"), engine.PolicyOptions{Ban: threeStrikes}, "")
	s := &strikes{t: t}
	e := plain.WithObserver(s, 0)
	take(t, e, s, start-1, "k")
	for range 10 {
		take(t, e, s, start, "k")
	}
	if len(s.begun) != 1 {
		t.Fatalf("got %d bans want 1", len(s.begun))
	}
	state, ok, err := e.ActiveConfig().BanState(t.Context(), start, "p", "k")
	if want := (engine.BanState{Banned: true, Ends: time.Minute, Bans: 1}); err != nil || !ok || state != want {
		t.Errorf("got %+v, %v, error %v want %+v", state, ok, err, want)
	}
	check := []engine.Check{{Policy: "p", Key: "k", Cost: 1}}
	var a engine.Answer
	if err := e.DecideAt(t.Context(), start, headgate.Peek, check, &a); err != nil || a.Allowed || a.DeniedBy[0] != "p:ban" {
		t.Errorf("peek: got %+v, error %v want denied by the ban", a.Decision, err)
	}
	if err := e.DecideAt(t.Context(), start, headgate.Refund, check, &a); err != nil || len(a.Rules) != 1 {
		t.Errorf("refund: got %d rules, error %v want 1", len(a.Rules), err)
	}
	if err := e.DecideAt(t.Context(), start, headgate.Reset, check, &a); err != nil || a.Remaining != 1 || len(a.Rules) != 1 {
		t.Errorf("reset: got %+v of %d rules, error %v want 1 remaining", a.Decision, len(a.Rules), err)
	}
	if state, _, err := e.ActiveConfig().BanState(t.Context(), start, "p", "k"); err != nil || state != (engine.BanState{}) {
		t.Errorf("after a reset: got %+v, error %v want no ban", state, err)
	}
	if a := take(t, e, s, start, "k"); !a.Allowed {
		t.Errorf("after a reset: got %+v want allowed", a.Decision)
	}
	if _, ok, err := e.ActiveConfig().BanState(t.Context(), start, "q", "k"); ok || !errors.Is(err, engine.ErrUnknownPolicy) {
		t.Errorf("of an unknown policy: got %v, error %v", ok, err)
	}
}

// A banned key opens no hold, and its denials of holds count.
func TestBanDeniesHolds(t *testing.T) {
	t.Parallel()
	plain, _ := newPolicyEngine(t, headgate.MustPolicy("1/1h"), engine.PolicyOptions{Ban: threeStrikes}, "")
	s := &strikes{t: t, at: start}
	e := plain.WithObserver(s, 0)
	hold := func(at headgate.Instant) engine.Answer {
		t.Helper()
		var a engine.Answer
		h := engine.ClientHold{ID: headgate.NewHoldID(), Checks: []engine.Check{{Policy: "p", Key: "k", Cost: 1}}}
		if err := e.ActiveConfig().Hold(t.Context(), at, time.Minute, &h, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := hold(start); !a.Allowed {
		t.Fatalf("got %+v want allowed", a.Decision)
	}
	for range 3 {
		if a := hold(start); a.Allowed || a.DeniedBy[0] != "p" {
			t.Fatalf("got %+v want denied by p", a.Decision)
		}
	}
	if a := hold(start); a.Allowed || a.DeniedBy[0] != "p:ban" || len(s.begun) != 1 {
		t.Errorf("got %+v and %d bans want denied by the ban", a.Decision, len(s.begun))
	}
}

// In shadow mode, a ban would deny, and the request is allowed.
func TestBanInShadowMode(t *testing.T) {
	t.Parallel()
	e, _ := newPolicyEngine(t, headgate.MustPolicy("1/1h"), engine.PolicyOptions{Ban: threeStrikes, Shadow: engine.All}, "")
	var counted int
	watch := observeFunc(func(ev *engine.Event) {
		w := &ev.Shadows()[0]
		if rules, banned := ev.ShadowBan(0); w.DeniedBy != nil && !banned {
			counted++
			if _, err := rules.Count(t.Context(), start, ev.ShadowKey(0), 1); err != nil {
				t.Error(err)
			}
		}
	})
	view := e.WithObserver(watch, 0)
	var a engine.Answer
	for range 6 {
		if err := view.DecideAt(t.Context(), start, headgate.Take, []engine.Check{{Policy: "p", Key: "k", Cost: 1}}, &a); err != nil || !a.Allowed {
			t.Fatalf("got %+v, error %v want allowed", a.Decision, err)
		}
	}
	if d := a.Shadows[0].Decision; counted != 3 || d.Allowed || d.DeniedBy[0] != "p:ban" {
		t.Errorf("got %d denials and %+v want 3 and denied by the ban", counted, d)
	}
}

type observeFunc func(*engine.Event)

func (observeFunc) Begin() int64              { return 1 }
func (f observeFunc) Observe(e *engine.Event) { f(e) }

// A reload keeps the bans. Unlimited and blocked keys have none.
func TestBanReloadAndConstants(t *testing.T) {
	t.Parallel()
	opts := engine.PolicyOptions{Ban: threeStrikes, Overrides: map[string][]headgate.Limit{"vip": {headgate.Unlimited()}, "bad": {headgate.Blocked()}}}
	policy := headgate.MustPolicy("1/1h")
	plain, _ := newPolicyEngine(t, policy, opts, "")
	s := &strikes{t: t}
	e := plain.WithObserver(s, 0)
	for range 5 {
		take(t, e, s, start, "k")
	}
	before := decide(t, e, headgate.Peek, engine.Check{Policy: "p", Key: "k"}).Rules[0]
	if err := e.Apply(&engine.Options{Policies: map[string]headgate.Policy{"p": policy}, PolicyOptions: map[string]engine.PolicyOptions{"p": opts}}); err != nil {
		t.Fatal(err)
	}
	if after := decide(t, e, headgate.Peek, engine.Check{Policy: "p", Key: "k"}).Rules[0]; after != before {
		t.Error("a reload without a change has made new rules")
	}
	if a := take(t, e, s, start, "k"); a.Allowed || a.DeniedBy[0] != "p:ban" {
		t.Errorf("after a reload: got %+v want denied by the ban", a.Decision)
	}
	for range 10 {
		take(t, e, s, start, "bad")
		take(t, e, s, start, "vip")
	}
	if len(s.begun) != 1 {
		t.Errorf("got %d bans want 1", len(s.begun))
	}
}

func TestBanValidate(t *testing.T) {
	t.Parallel()
	for _, b := range []engine.Ban{
		{After: -1, Within: time.Minute, For: time.Minute},
		{After: 10_001, Within: time.Minute, For: time.Minute},
		{Within: time.Minute, For: time.Minute},
		{After: 1, For: time.Minute},
		{After: 1, Within: time.Minute},
		{After: 1, Within: time.Minute, For: time.Minute, Max: time.Second},
		{After: 1, Within: time.Minute, For: time.Minute, Max: 91 * 24 * time.Hour},
		{After: 1, Within: time.Minute, For: time.Minute, Max: time.Hour, Forget: time.Minute},
		{After: 1, Within: time.Minute, For: time.Minute + time.Microsecond},
	} {
		if err := b.Validate(); !errors.Is(err, headgate.ErrInvalidPolicy) {
			t.Errorf("%+v: got error %v want ErrInvalidPolicy", b, err)
		}
	}
	if err := (engine.Ban{After: 10_000, Within: 24 * time.Hour, For: engine.MaxBan}).Validate(); err != nil {
		t.Errorf("the largest settings: %v", err)
	}
}

// The bucket of the bans is not a limit that operators see.
func TestPolicyRulesHaveNoBan(t *testing.T) {
	t.Parallel()
	e, _ := newPolicyEngine(t, headgate.MustPolicy("1/1h"), engine.PolicyOptions{Ban: threeStrikes}, "")
	rules, replaced := e.ActiveConfig().PolicyRules("p")
	if len(rules) != 1 || rules[0].Text() != "1/h" || replaced {
		t.Errorf("got %d limits, replaced %v want the limit 1/h alone", len(rules), replaced)
	}
}

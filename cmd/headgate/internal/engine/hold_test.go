package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

const second = headgate.Instant(1_000_000)

// mustHold opens a hold at an instant, and passes it through its token.
func mustHold(t *testing.T, e *engine.Engine, at headgate.Instant, ttl time.Duration, checks ...engine.Check) (engine.ClientHold, engine.Answer) {
	t.Helper()
	id, err := engine.NewHoldID("")
	h, a := engine.ClientHold{ID: id, Checks: checks}, engine.Answer{}
	if err = errors.Join(err, e.ActiveConfig().Hold(t.Context(), at, ttl, &h, &a)); err != nil {
		t.Fatal(err)
	}
	got, err := engine.ParseHold(h.Token(), engine.DefaultMaxChecks)
	if err != nil {
		t.Fatal(err)
	}
	return got, a
}

func commit(t *testing.T, e *engine.Engine, at headgate.Instant, h engine.ClientHold, actual ...int64) engine.Answer {
	t.Helper()
	var a engine.Answer
	if err := e.ActiveConfig().Commit(t.Context(), at, &h, actual, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// A commit has the effect of the actual cost at the beginning of the hold. The limits of
// an override apply to holds as well.
func TestHold(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", "acme"} {
		policy := headgate.MustPolicy("1/s burst 10")
		opts := engine.PolicyOptions{Overrides: map[string][]headgate.Limit{"acme": limits("1/s burst 20")}}
		e, _ := newPolicyEngine(t, policy, opts, "")
		check := engine.Check{Policy: "p", Key: key, Cost: 10}
		h, a := mustHold(t, e, start, time.Minute, check)
		spare := a.Limit - 10
		if !a.Allowed || a.Remaining != spare || h.Expires != start+60*second {
			t.Fatalf("%s: got %+v, %d", key, a.Decision, h.Expires)
		}
		check.Cost = 5
		if err := e.DecideAt(t.Context(), start+8*second, headgate.Take, []engine.Check{check}, &a); err != nil {
			t.Fatal(err)
		}
		if a := commit(t, e, start+8*second, h, 1); a.Remaining != spare+5 || a.Replayed {
			t.Errorf("%s: got %+v want %d remaining", key, a.Decision, spare+5)
		}
		if a := commit(t, e, start+8*second, h, 1); a.Remaining != spare+5 || !a.Replayed {
			t.Errorf("%s, repeated: got %+v, replayed %v", key, a.Decision, a.Replayed)
		}
	}
}

// Policies in shadow mode are held separately and never affect the request.
func TestHoldShadow(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	seen, one := engine.Check{Policy: "seen", Key: "b", Cost: 1}, engine.Check{Policy: "one", Key: "a", Cost: 1}
	h, a := mustHold(t, e, start, time.Minute, seen, one)
	if !a.Allowed || len(a.Shadows) != 1 || !a.Shadows[0].Decision.Allowed || a.Shadows[0].Decision.Remaining != 0 {
		t.Fatalf("got %+v", a)
	}
	if _, a := mustHold(t, e, start, time.Minute, seen, one); a.Allowed || a.Shadows[0].DeniedBy == nil {
		t.Errorf("a second hold: got %+v", a.Decision)
	}
	if h, a := mustHold(t, e, start, time.Minute, seen); !a.Allowed || !a.Unenforced || a.Shadows[0].DeniedBy == nil || h.Expires != start+60*second {
		t.Errorf("only in shadow mode: got %+v", a.Decision)
	}
	if a := commit(t, e, start, h, 0, 0); a.Remaining != 1 || a.Shadows[0].Decision.Remaining != 1 {
		t.Errorf("committed: got %+v, %+v", a.Decision, a.Shadows)
	}
	var b engine.Answer
	if err := e.ActiveConfig().TakeUpTo(t.Context(), start, []engine.Check{{Policy: "seen", Key: "b", Cost: 7}}, &b); err != nil || b.Granted != 7 {
		t.Errorf("take-up-to in shadow mode: %d granted, %v; want all", b.Granted, err)
	}
}

// After an operation on a hold that a check in shadow mode has denied, its decision is a
// peek on its key.
func TestHoldDeniedInShadowMode(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	var a engine.Answer
	seen := engine.Check{Policy: "seen", Key: "b", Cost: 1}
	if err := e.DecideAt(t.Context(), start, headgate.Take, []engine.Check{seen}, &a); err != nil {
		t.Fatal(err)
	}
	seen.Cost = 7
	for _, checks := range [][]engine.Check{{seen}, {{Policy: "one", Key: "a", Cost: 1}, seen}} {
		h, _ := mustHold(t, e, start, time.Minute, checks...)
		for _, holds := range [][]engine.ClientHold{{h}, {h, h}} {
			if err := e.ActiveConfig().Extend(t.Context(), start, time.Minute, holds, &a); err != nil && len(checks) > 1 {
				t.Fatal(err)
			}
			mustSeeUsed(t, &a)
		}
		a = commit(t, e, start, h, make([]int64, len(checks))...)
		mustSeeUsed(t, &a)
	}
}

// mustSeeUsed fails unless every check in shadow mode has the limit 1 and 0 remaining.
func mustSeeUsed(t *testing.T, a *engine.Answer) {
	t.Helper()
	results := a.AppendResults(nil)
	for i := range results {
		if r := &results[i]; r.Policy == "seen" && (r.Limit != 1 || r.Remaining != 0) {
			t.Errorf("result %d: got %+v want 0 remaining", i, r)
		}
	}
}

// With enforcement off, holds are allowed and nothing is charged.
func TestHoldEnforcementOff(t *testing.T) {
	t.Parallel()
	e, _ := newPolicyEngine(t, headgate.MustPolicy("5/1h"), engine.PolicyOptions{}, engine.Off)
	h, a := mustHold(t, e, start, time.Minute, engine.Check{Policy: "p", Key: "k", Cost: 9})
	if !a.Allowed || !a.Unenforced || h.Expires != start+60*second {
		t.Errorf("got %+v, %d", a.Decision, h.Expires)
	}
	if a := commit(t, e, start, h, 3); a.Remaining != 5 {
		t.Errorf("committed: got %+v", a.Decision)
	}
}

// A repeated request has the deadline of the hold, also after an extension.
func TestReplayedHoldExpires(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	checks := []engine.Check{{Policy: "one", Key: "k", Cost: 1}, {Limit: "5/1m", Key: "k", Cost: 2}}
	open := func(at headgate.Instant) engine.ClientHold {
		h, a := engine.ClientHold{ID: headgate.HoldID{7}, Checks: checks}, engine.Answer{}
		if err := e.ActiveConfig().Hold(t.Context(), at, time.Minute, &h, &a); err != nil || !a.Allowed || a.Replayed != (at > start) {
			t.Fatalf("got %+v, error %v", a, err)
		}
		return h
	}
	h := open(start)
	if again := open(start + 9*second); again.Expires != start+60*second {
		t.Errorf("repeated after 9 s: got a deadline after %d µs want 60 s", again.Expires-start)
	}
	holds, a := []engine.ClientHold{h}, engine.Answer{}
	if err := e.ActiveConfig().Extend(t.Context(), start, time.Hour, holds, &a); err != nil {
		t.Fatal(err)
	}
	if again := open(start + 10*second); again.Expires != start+3600*second {
		t.Errorf("repeated after an extension: got a deadline after %d µs want 1 h", again.Expires-start)
	}
}

func TestHoldObserver(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	var j journal
	view := e.WithObserver(&j, 1)
	one, a := engine.Check{Policy: "one", Key: "a", Cost: 1}, engine.Answer{}
	h, _ := mustHold(t, view, start, time.Minute, one)
	active := view.ActiveConfig()
	holds := []engine.ClientHold{h}
	err := errors.Join(
		active.Extend(t.Context(), start, time.Minute, holds, &a),
		active.Cancel(t.Context(), start, &h, &a),
		active.Debit(t.Context(), start, []engine.Check{one}, &a),
		active.TakeUpTo(t.Context(), start, []engine.Check{one}, &a),
	)
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, view, start, time.Minute, one)
	h.ID = headgate.HoldID{1}
	if err := active.Cancel(t.Context(), start, &h, &a); engine.ErrorKindOf(err) != engine.UnknownHold {
		t.Errorf("got %v want an unknown hold", err)
	}
	j.requireEvents(t, "hold began=7 one/a=true", "extend began=7 one/a=true", "commit began=7 one/a=true", "debit began=7 one/a=true",
		"take_up_to began=7 one/a=true", "hold began=7 one/a=false", "commit began=7 unknown hold")
}

// Limits with separate state in one request do not get other state because they are
// extended together.
func TestExtendInlineLimits(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, nil)
	first, _ := mustHold(t, e, start, time.Minute, inline("k", "1/s burst 20"))
	other, _ := mustHold(t, e, start, time.Minute, inline("k", "30/s burst 60"))
	both, _ := mustHold(t, e, start, time.Minute, inline("k", "1/s burst 20"), inline("k", "30/s burst 60"))
	holds, a := []engine.ClientHold{first, other, both}, engine.Answer{}
	if err := e.ActiveConfig().Extend(t.Context(), start, time.Hour, holds, &a); err != nil {
		t.Fatal(err)
	}
	for i := range holds {
		if holds[i].Err != nil || holds[i].Expires != start+3600*second {
			t.Errorf("hold %d: got %d, %v", i, holds[i].Expires, holds[i].Err)
		}
	}
	if got := len(a.AppendResults(nil)); got != 4 {
		t.Errorf("got %d results want 4", got)
	}
}

// A hold whose policy has changed or is gone.
func TestHoldAfterReload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next map[string]headgate.Policy
		want engine.ErrorKind
		said string
	}{
		"algorithm": {map[string]headgate.Policy{"p": {Limits: limits("10/1m"), Algorithm: headgate.FixedWindow}}, engine.UnknownHold, "the limits of its policy have changed"},
		"removed":   {nil, engine.UnknownPolicy, `unknown policy "p"`},
	} {
		e, _ := newPolicyEngine(t, headgate.MustPolicy("10/1m"), engine.PolicyOptions{}, "")
		h, _ := mustHold(t, e, start, time.Minute, engine.Check{Policy: "p", Key: "k", Cost: 4})
		if err := e.Apply(&engine.Options{Policies: map[string]headgate.Policy{"p": headgate.MustPolicy("20/1m")}}); err != nil {
			t.Fatal(err)
		}
		var a engine.Answer
		if err := e.ActiveConfig().Extend(t.Context(), start, time.Minute, []engine.ClientHold{h}, &a); err != nil {
			t.Errorf("%s: under another rate: %v", name, err)
		}
		if err := e.Apply(&engine.Options{Policies: c.next}); err != nil {
			t.Fatal(err)
		}
		err := e.ActiveConfig().Commit(t.Context(), start, &h, []int64{1}, &a)
		if engine.ErrorKindOf(err) != c.want || !strings.Contains(engine.Reason(err), c.said) {
			t.Errorf("%s: got %v want %v, %s", name, err, c.want, c.said)
		}
	}
}

// Tokens are read as they were written, and malformed ones are rejected.
func TestToken(t *testing.T) {
	t.Parallel()
	h := engine.ClientHold{ID: headgate.HoldID{1, 2, 255}, Expires: start, Checks: []engine.Check{
		{Policy: "p", Key: "k\x00\xff", Cost: 1<<53 - 1}, {Limit: "5/1m burst 9", Algorithm: "gcra", Key: ""},
	}}
	token := h.Token()
	got, err := engine.ParseHold(token, 2)
	if err != nil || got.ID != h.ID || got.Expires != h.Expires || len(got.Checks) != 2 || got.Checks[0] != h.Checks[0] || got.Checks[1] != h.Checks[1] {
		t.Fatalf("got %+v, %v want %+v", got, err, h)
	}
	wrong := []string{"", "AQ", token + "A", token + "=", token[:1] + " " + token[1:], token + "\n", token + "\r\n", token[:9] + "\n" + token[9:], "A" + token, "/" + token[1:], token + token}
	for i := range token {
		wrong = append(wrong, token[:i])
	}
	for _, text := range wrong {
		if _, err := engine.ParseHold(text, 2); engine.ErrorKindOf(err) != engine.InvalidRequest || err == nil {
			t.Errorf("%q: got %v want an invalid request", text, err)
		}
	}
	if _, err := engine.ParseHold(token, 1); err == nil {
		t.Error("a token with too many checks was accepted")
	}
}

// FuzzToken: no text causes a panic, and a hold that was read is written and read again
// as the same hold. Its use returns an error or a decision.
func FuzzToken(f *testing.F) {
	h := engine.ClientHold{ID: headgate.HoldID{1}, Expires: start, Checks: []engine.Check{{Policy: "one", Key: "k", Cost: 3}, {Limit: "5/1m", Key: "k"}}}
	f.Add(h.Token())
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, token string) {
		h, err := engine.ParseHold(token, 8)
		if err != nil {
			return
		}
		again, err := engine.ParseHold(h.Token(), 8)
		if err != nil || again.ID != h.ID || again.Expires != h.Expires || len(again.Checks) != len(h.Checks) {
			t.Fatalf("%q: got %+v, %v want %+v", token, again, err, h)
		}
		for i := range h.Checks {
			if again.Checks[i] != h.Checks[i] {
				t.Fatalf("%q: got %+v want %+v", token, again, h)
			}
		}
		e, _ := newEngine(t, observed)
		var a engine.Answer
		if err := e.ActiveConfig().Cancel(t.Context(), start, &h, &a); err != nil && engine.ErrorKindOf(err) == engine.StoreFailure {
			t.Fatalf("%q: %v", token, err)
		}
	})
}

// A hold whose checks are all in shadow mode is extended together with an enforced one.
func TestExtendShadowAndEnforced(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	seen, _ := mustHold(t, e, start, time.Minute, engine.Check{Policy: "seen", Key: "b", Cost: 1})
	one, _ := mustHold(t, e, start, time.Minute, engine.Check{Policy: "one", Key: "a", Cost: 1})
	holds, a := []engine.ClientHold{seen, one}, engine.Answer{}
	if err := e.ActiveConfig().Extend(t.Context(), start, time.Hour, holds, &a); err != nil {
		t.Fatal(err)
	}
	for i := range holds {
		if holds[i].Err != nil || holds[i].Expires != start+3600*second {
			t.Errorf("hold %d: got %d, %v", i, holds[i].Expires, holds[i].Err)
		}
	}
}

// A blocked check grants nothing, so the other checks spend nothing.
func TestTakeUpToBlocked(t *testing.T) {
	t.Parallel()
	opts := engine.PolicyOptions{Overrides: map[string][]headgate.Limit{"bad": {headgate.Blocked()}}}
	e, _ := newPolicyEngine(t, headgate.MustPolicy("10/1h"), opts, "")
	checks, a := []engine.Check{{Policy: "p", Key: "bad", Cost: 4}, {Policy: "p", Key: "k", Cost: 4}}, engine.Answer{}
	if err := e.ActiveConfig().TakeUpTo(t.Context(), start, checks, &a); err != nil || a.Granted != 0 {
		t.Fatalf("got %d granted, %v want 0", a.Granted, err)
	}
	if err := e.DecideAt(t.Context(), start, headgate.Peek, checks[1:], &a); err != nil || a.Remaining != 10 {
		t.Errorf("got %d remaining, %v want 10", a.Remaining, err)
	}
}

// The error for a debit of slots contains what to do instead.
func TestDebitOfSlots(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, nil)
	checks, a := []engine.Check{inline("k", "2 concurrent")}, engine.Answer{}
	for _, err := range []error{
		e.ActiveConfig().Debit(t.Context(), start, checks, &a),
		e.ActiveConfig().TakeUpTo(t.Context(), start, checks, &a),
	} {
		if !errors.Is(err, headgate.ErrHoldRequired) || !strings.Contains(engine.Reason(err), "/v1/hold and /v1/commit") || strings.Contains(engine.Reason(err), "memstore") {
			t.Errorf("got %v want the error of a check", engine.Reason(err))
		}
	}
}

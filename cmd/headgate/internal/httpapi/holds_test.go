package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
)

// held is the part of a response that operations on holds have.
type held struct {
	Allowed   bool
	Remaining int64
	Replayed  bool
	Granted   int64
	Hold      string
	ExpiresAt time.Time `json:"expires_at"`
	Holds     []struct {
		Extended  bool
		Hold      string
		ExpiresAt time.Time `json:"expires_at"`
		Error     string
	}
	Error, Detail, Field string
}

func (s *served) hold(path, body string) (status int, h held) {
	s.t.Helper()
	got := s.post(path, body)
	if err := json.Unmarshal([]byte(got.body), &h); err != nil {
		s.t.Fatalf("%s %s: %d %s: %v", path, body, got.status, got.body, err)
	}
	return got.status, h
}

// until reports an error if a deadline is not d from now, give or take ten seconds.
func until(t *testing.T, deadline time.Time, d time.Duration) {
	t.Helper()
	if wait := time.Until(deadline); wait < d-10*time.Second || wait > d+time.Millisecond {
		t.Errorf("the deadline is in %v, want %v", wait, d)
	}
}

// A hold is opened, repeated, extended, committed, and committed again.
func TestHold(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	const open = `{"id":"a","ttl":"1h","checks":[{"limit":"10/365d","key":"k","cost":6},{"policy":"login","key":"k","cost":1}]}`
	status, h := s.hold("/v1/hold", open)
	if status != 200 || !h.Allowed || h.Remaining != 4 || h.Replayed || h.Hold == "" {
		t.Fatalf("got %d %+v", status, h)
	}
	until(t, h.ExpiresAt, time.Hour)
	token := h.Hold
	if status, h = s.hold("/v1/hold", open); status != 200 || !h.Replayed || h.Remaining != 4 || h.Hold == "" {
		t.Errorf("repeated: got %d %+v", status, h)
	}
	status, h = s.hold("/v1/extend", `{"holds":["`+token+`"],"ttl":"48h"}`)
	if status != 200 || len(h.Holds) != 1 || !h.Holds[0].Extended || h.Remaining != 4 {
		t.Fatalf("extended: got %d %+v", status, h)
	}
	until(t, h.Holds[0].ExpiresAt, 48*time.Hour)
	if h.Holds[0].Hold == token || h.Holds[0].Hold == "" {
		t.Errorf("the extended hold has the token %q", h.Holds[0].Hold)
	}
	commit := `{"hold":"` + token + `","actual":[2,5]}`
	for _, replayed := range []bool{false, true} {
		if status, h = s.hold("/v1/commit", commit); status != 200 || h.Replayed != replayed || h.Remaining != 0 {
			t.Errorf("committed: got %d %+v want replayed %v", status, h, replayed)
		}
	}
	if status, h = s.hold("/v1/peek", `{"limit":"10/365d","key":"k"}`); h.Remaining != 8 {
		t.Errorf("got %d %+v want 8 remaining", status, h)
	}
}

// A number is the actual cost of every check.
func TestCommitSameCost(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	_, h := s.hold("/v1/hold", `{"ttl":"1h","checks":[{"limit":"10/365d","key":"k","cost":6},{"policy":"login","key":"k","cost":1}]}`)
	if status, got := s.hold("/v1/commit", `{"hold":"`+h.Hold+`","actual": 3}`); status != 200 || got.Remaining != 2 {
		t.Fatalf("got %d %+v want 2 remaining", status, got)
	}
	if _, got := s.hold("/v1/peek", `{"limit":"10/365d","key":"k"}`); got.Remaining != 7 {
		t.Errorf("got %+v want 7 remaining", got)
	}
}

// A limit that does not know the hold has not counted the cost above the amount.
func TestCommitUncounted(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	_, h := s.hold("/v1/hold", `{"ttl":"1h","checks":[{"limit":"10/365d","key":"k","cost":6},{"policy":"login","key":"k","cost":2}]}`)
	s.post("/v1/reset", `{"policy":"login","key":"k"}`)
	for range 2 {
		status, got := s.hold("/v1/commit", `{"hold":"`+h.Hold+`","actual":[1,5]}`)
		if status != 404 || got.Error != "unknown_hold" || !strings.Contains(got.Detail, `not counted (3 under "login")`) {
			t.Errorf("got %d %+v want an unknown hold with 3 units under login", status, got)
		}
	}
	if _, got := s.hold("/v1/peek", `{"limit":"10/365d","key":"k"}`); got.Remaining != 9 {
		t.Errorf("the other limit: got %+v want 9 remaining", got)
	}
}

// A hold that the failure mode open has allowed has nothing to correct. The response has
// the units above its amount. The failure mode closed opens no holds.
func TestHoldOfOutage(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	token := func(policy string, expires headgate.Instant) string {
		h := engine.ClientHold{
			ID: headgate.HoldID{1}, Expires: expires, Degraded: headgate.ReasonTimedOut,
			Checks: []engine.Check{{Policy: policy, Key: "k", Cost: 2}},
		}
		return h.Token()
	}
	later := headgate.InstantOf(time.Now().Add(time.Hour))
	for _, tt := range []struct{ name, path, body, want string }{
		{"commit", "/v1/commit", `{"actual":[2],"hold":"` + token("open", later) + `"}`, `"replayed":false}`},
		{"commit above the amount", "/v1/commit", `{"actual":[5],"hold":"` + token("open", later) + `"}`, `"uncounted":3}`},
		{"extension", "/v1/extend", `{"ttl":"1h","holds":["` + token("open", later) + `"]}`, `"extended":true`},
		{"cancellation after the deadline", "/v1/cancel", `{"hold":"` + token("open", 1) + `"}`, `"replayed":false}`},
	} {
		got := s.post(tt.path, tt.body)
		for _, want := range []string{`"remaining":5,`, `"degraded":true`, tt.want} {
			if got.status != 200 || !strings.Contains(got.body, want) {
				t.Errorf("%s: got %d %s want 200 and %s", tt.name, got.status, got.body, want)
			}
		}
	}
	status, got := s.hold("/v1/commit", `{"actual":[1],"hold":"`+token("login", later)+`"}`)
	if status != 404 || !strings.Contains(got.Detail, "with a debit") {
		t.Errorf("failure mode closed: got %d %+v want 404", status, got)
	}
	if status, _ := s.hold("/v1/cancel", `{"hold":"`+token("login", 1)+`"}`); status != 410 {
		t.Errorf("failure mode closed, after the deadline: got %d want 410", status)
	}
}

// A denied hold spends nothing and has no token.
func TestHoldDenied(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	const body = `{"ttl":"1m","checks":[{"limit":"10/365d","key":"k","cost":6},{"policy":"login","key":"k","cost":6}]}`
	got := s.post("/v1/hold", body)
	if got.status != 429 || strings.Contains(got.body, `"hold":`) || strings.Contains(got.body, "expires_at") || !strings.Contains(got.body, `"denied_by":["login"]`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := s.post("/v1/hold?deny_status=200", body); got.status != 200 {
		t.Errorf("got %d %s want 200", got.status, got.body)
	}
	if _, h := s.hold("/v1/peek", `{"limit":"10/365d","key":"k"}`); h.Remaining != 10 {
		t.Errorf("a denied hold has spent units: %+v", h)
	}
}

// Many holds are extended in one request; a hold that is not open has an error.
func TestExtendHolds(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	var tokens []string
	for i := range 5 {
		_, h := s.hold("/v1/hold", fmt.Sprintf(`{"ttl":"1m","policy":"login","key":"k%d"}`, i/2))
		tokens = append(tokens, h.Hold)
	}
	s.hold("/v1/cancel", `{"hold":"`+tokens[1]+`"}`)
	tokens = append(tokens, forged(headgate.HoldID{9}, 1, engine.Check{Policy: "login", Key: "k0"}))
	body, _ := json.Marshal(map[string]any{"ttl": "1h", "holds": tokens})
	status, h := s.hold("/v1/extend", string(body))
	if status != 200 || len(h.Holds) != 6 {
		t.Fatalf("got %d %+v", status, h)
	}
	for i, one := range h.Holds {
		want := map[int]string{1: "unknown_hold", 5: "expired_hold"}[i]
		if one.Extended != (want == "") || one.Error != want {
			t.Errorf("hold %d: got %+v want error %q", i, one, want)
		}
		if one.Extended {
			until(t, one.ExpiresAt, time.Hour)
		}
	}
}

func forged(id headgate.HoldID, expires headgate.Instant, checks ...engine.Check) string {
	h := engine.ClientHold{ID: id, Expires: expires, Checks: checks}
	return h.Token()
}

func TestCancelDebitTakeUpTo(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	_, h := s.hold("/v1/hold", `{"ttl":"1m","policy":"login","key":"k","cost":4}`)
	if status, h := s.hold("/v1/cancel", `{"hold":"`+h.Hold+`"}`); status != 200 || h.Remaining != 5 || !h.Allowed {
		t.Errorf("cancel: got %d %+v", status, h)
	}
	if status, h := s.hold("/v1/take-up-to", `{"policy":"login","key":"k","cost":3}`); status != 200 || h.Granted != 3 || h.Remaining != 2 {
		t.Errorf("take-up-to: got %d %+v", status, h)
	}
	several := `{"checks":[{"policy":"login","key":"k","cost":9},{"limit":"10/365d","key":"k","cost":9}]}`
	if status, h := s.hold("/v1/take-up-to", several); status != 200 || h.Granted != 2 || h.Remaining != 0 {
		t.Errorf("take-up-to, several: got %d %+v", status, h)
	}
	if status, h := s.hold("/v1/debit", `{"limit":"10/365d","key":"k","cost":7}`); status != 200 || h.Remaining != 1 || !h.Allowed {
		t.Errorf("debit: got %d %+v", status, h)
	}
	if status, h := s.hold("/v1/debit", several); status != 200 || h.Remaining != 0 {
		t.Errorf("debit, several: got %d %+v", status, h)
	}
}

// A leaky bucket has no holds, but every interface debits its units.
func TestDebitOfLeakyBucket(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	const check = `{"limit":"10/365d queue 5","algorithm":"leaky_bucket","key":"k","cost":`
	if status, h := s.hold("/v1/debit", check+`2}`); status != 200 || h.Remaining != 4 || !h.Allowed {
		t.Errorf("debit: got %d %+v want 4 remaining", status, h)
	}
	if status, h := s.hold("/v1/take-up-to", check+`9}`); status != 200 || h.Granted != 4 || h.Remaining != 0 {
		t.Errorf("take-up-to: got %d %+v want 4 granted", status, h)
	}
}

// Invalid requests get a problem, and spend nothing.
func TestHoldProblems(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	const check = `"policy":"login","key":"k"`
	_, h := s.hold("/v1/hold", `{"id":"a","ttl":"1h","policy":"login","key":"k","cost":2}`)
	open := h.Hold
	far := headgate.InstantOf(time.Now().Add(time.Hour))
	login := engine.Check{Policy: "login", Key: "k", Cost: 1}
	logged := engine.Check{Limit: "10/1m", Algorithm: "sliding_log", Key: "k", Cost: 1}
	for _, tt := range []struct {
		name, path, body string
		status           int
		field, code      string
		said             string
	}{
		{"no ttl", "/v1/hold", `{` + check + `}`, 400, "ttl", "", `field "ttl" is required`},
		{"ttl as a number", "/v1/hold", `{` + check + `,"ttl":30}`, 400, "ttl", "", "must be a string, not a number"},
		{"ttl without a unit", "/v1/hold", `{` + check + `,"ttl":"30"}`, 400, "ttl", "", `field "ttl" is "30"; must be a duration such as 30s`},
		{"ttl of 0", "/v1/hold", `{` + check + `,"ttl":"0s"}`, 400, "ttl", "", "ttl is 0s; must be 1ms to 168h (7 days)"},
		{"ttl of 8 days", "/v1/hold", `{` + check + `,"ttl":"192h"}`, 400, "ttl", "", "must be 1ms to 168h"},
		{"a long id", "/v1/hold", `{` + check + `,"ttl":"1s","id":"` + strings.Repeat("i", 129) + `"}`, 400, "id", "", "129 bytes; must be 1 to 128"},
		{"a field of another operation", "/v1/hold", `{` + check + `,"ttl":"1s","hold":"x"}`, 400, "hold", "", "unknown field"},
		{"a cost above 2^53 - 1", "/v1/hold", `{` + check + `,"ttl":"1s","cost":9007199254740992}`, 400, "cost", "", "must be 0 to 9007199254740991"},
		{"a leaky bucket", "/v1/hold", `{"limit":"1/s queue 2","algorithm":"leaky_bucket","key":"k","ttl":"1s"}`, 400, "algorithm", "", "leaky_bucket has no holds; must be"},
		{"too many checks", "/v1/hold", `{"ttl":"1s","checks":[` + strings.Repeat(`{`+check+`},`, 32) + `{` + check + `}]}`, 400, "checks", "", "at most 32 checks"},
		{"unknown policy", "/v1/hold", `{"policy":"logn","key":"k","ttl":"1s"}`, 404, "policy", "", `did you mean "login"?`},
		{"the id of another hold", "/v1/hold", `{` + check + `,"ttl":"1s","id":"a","cost":1}`, 409, "", "conflict", "use another id"},
		{"no hold", "/v1/commit", `{"actual":[1]}`, 400, "hold", "", `field "hold" is required`},
		{"no actual", "/v1/commit", `{"hold":"` + open + `"}`, 400, "actual", "", `field "actual" is required`},
		{"no actual costs", "/v1/commit", `{"hold":"` + open + `","actual":[]}`, 400, "actual", "", "is empty"},
		{"actual as an object", "/v1/commit", `{"hold":"` + open + `","actual":{}}`, 400, "actual", "", "must be an array or a whole number, not an object"},
		{"a negative number", "/v1/commit", `{"hold":"` + open + `","actual":-1}`, 400, "actual", "", "cost is -1; must be 0 or more"},
		{"actual as text", "/v1/commit", `{"hold":"` + open + `","actual":["1"]}`, 400, "actual[0]", "", "must be a whole number, not a string"},
		{"too many actual costs", "/v1/commit", `{"hold":"` + open + `","actual":[1,1]}`, 400, "actual", "", "the number of actual costs is 2; must be 1"},
		{"a negative actual cost", "/v1/commit", `{"hold":"` + open + `","actual":[-1]}`, 400, "actual[0]", "", "cost is -1; must be 0 or more"},
		{"an actual cost above 2^53 - 1", "/v1/commit", `{"hold":"` + open + `","actual":[9007199254740992]}`, 400, "actual[0]", "", "must be 0 to 1000000000"},
		{"an actual cost above 10^9", "/v1/commit", `{"hold":"` + forged(headgate.HoldID{1}, far, logged) + `","actual":[1000000001]}`, 400, "actual[0]", "", "must be 0 to 1000000000 in a commit under sliding_log; the hold is still open: commit at most 1000000000, or cancel it"},
		{"a malformed token", "/v1/commit", `{"hold":"x","actual":[1]}`, 400, "hold", "", "the token of the hold is invalid"},
		{"a cut token", "/v1/cancel", `{"hold":"` + open[:len(open)-4] + `"}`, 400, "hold", "", "the token of the hold is invalid"},
		{"a token of another version", "/v1/cancel", `{"hold":"B` + open[1:] + `"}`, 400, "hold", "", "must be 1: open the hold with this version"},
		{"a token of an unknown policy", "/v1/cancel", `{"hold":"` + forged(headgate.HoldID{1}, far, engine.Check{Policy: "gone", Key: "k"}) + `"}`, 404, "hold", "", `unknown policy "gone"`},
		{"a token of an invalid limit", "/v1/cancel", `{"hold":"` + forged(headgate.HoldID{1}, far, engine.Check{Limit: "0/s", Key: "k"}) + `"}`, 400, "hold", "", "rate is 0"},
		{"a token of a long key", "/v1/cancel", `{"hold":"` + forged(headgate.HoldID{1}, far, engine.Check{Policy: "login", Key: strings.Repeat("k", 1025)}) + `"}`, 400, "hold", "", "1025 bytes"},
		{"a foreign token", "/v1/commit", `{"hold":"` + forged(headgate.HoldID{1}, far, login) + `","actual":[1]}`, 404, "", "unknown_hold", "have changed; open a new hold, or charge the cost with a debit"},
		{"an expired token", "/v1/commit", `{"hold":"` + forged(headgate.HoldID{1}, 1, login) + `","actual":[1]}`, 410, "", "expired_hold", "the hold has expired"},
		{"an expired token, extended", "/v1/extend", `{"holds":["` + forged(headgate.HoldID{1}, 1, login) + `"],"ttl":"1s"}`, 410, "", "expired_hold", "the hold has expired"},
		{"no holds", "/v1/extend", `{"holds":[],"ttl":"1s"}`, 400, "holds", "", "is empty"},
		{"the second token", "/v1/extend", `{"holds":["` + open + `","x"],"ttl":"1s"}`, 400, "holds[1]", "", "the token of the hold is invalid"},
		{"the second token's policy", "/v1/extend", `{"holds":["` + open + `","` + forged(headgate.HoldID{1}, far, login, engine.Check{Policy: "gone", Key: "k"}) + `"],"ttl":"1s"}`, 404, "holds[1]", "", "unknown policy"},
		{"1001 holds", "/v1/extend", `{"holds":[` + strings.Repeat(`"`+forged(headgate.HoldID{1}, 1, engine.Check{Policy: "l"})+`",`, 1000) + `""],"ttl":"1s"}`, 400, "holds", "", "at most 1000 elements"},
		{"a field of a check", "/v1/cancel", `{"hold":"` + open + `","key":"k"}`, 400, "key", "", `unknown field "key"; must be hold`},
		{"a debit of a negative cost", "/v1/debit", `{` + check + `,"cost":-1}`, 400, "cost", "", "must be 0 or more"},
		{"a debit above 10^9", "/v1/debit", `{` + check + `,"cost":1000000001}`, 400, "cost", "", "must be 0 to 1000000000 in a debit under sliding_log; charge the cost with several debits"},
		{"a debit above 2^53 - 1", "/v1/debit", `{"limit":"10/1m","key":"k","cost":9007199254740992}`, 400, "cost", "", "must be 0 to 9007199254740991 in a debit under token_bucket"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, h := s.hold(tt.path, tt.body)
			if status != tt.status || h.Field != tt.field || h.Error != tt.code || !strings.Contains(h.Detail, tt.said) {
				t.Errorf("got %d %+v\nwant %d, field %q, error %q, a detail that contains %q", status, h, tt.status, tt.field, tt.code, tt.said)
			}
		})
	}
	if _, h := s.hold("/v1/peek", `{"policy":"login","key":"k"}`); h.Remaining != 3 {
		t.Errorf("invalid requests have changed the key: %+v want 3 remaining", h)
	}
}

// A key has a maximum number of open holds.
func TestTooManyHolds(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	for i := range 1001 {
		status, h := s.hold("/v1/hold", `{"limit":"9000/365d","key":"k","ttl":"1h"}`)
		if i < 1000 && status != 200 || i == 1000 && (status != 409 || h.Error != "too_many_holds" || !strings.Contains(h.Detail, "there are too many open holds: the key has 1000")) {
			t.Fatalf("hold %d: got %d %+v", i+1, status, h)
		}
	}
}

// A hold whose token is too long for a request body is not opened. Every other one can be
// extended, committed and canceled.
func TestLongTokens(t *testing.T) {
	t.Parallel()
	s := serve(t, &httpapi.Options{MaxBodyBytes: 4 << 10}, nil)
	opened, refused := 0, 0
	for size := 600; size <= 1000; size += 5 {
		check := fmt.Sprintf(`{"limit":"9007199254740991/366d","algorithm":"fixed_window","cost":9007199254740991,"key":"%s`, strings.Repeat("k", size))
		status, h := s.hold("/v1/hold", `{"ttl":"1h","checks":[`+check+`1"},`+check+`2"},`+check+`3"}]}`)
		if status == 400 && h.Field == "checks" && strings.Contains(h.Detail, "the commit of this hold would have up to") {
			refused++
			continue
		}
		opened++
		for _, r := range [][2]string{
			{"/v1/extend", `{"holds":["` + h.Hold + `"],"ttl":"604799999ms"}`},
			{"/v1/commit", `{"hold":"` + h.Hold + `","actual":[9007199254740991,9007199254740991,9007199254740991]}`},
			{"/v1/cancel", `{"hold":"` + h.Hold + `"}`},
		} {
			if got := s.post(r[0], r[1]); got.status != 200 {
				t.Fatalf("keys of %d bytes, %s: got %d %.200s", size, r[0], got.status, got.body)
			}
		}
	}
	if opened < 10 || refused < 10 {
		t.Errorf("%d holds opened, %d refused", opened, refused)
	}
}

package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/internal/testserver"
)

func (s fixedClock) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	inner := make([]headgate.HoldOp, len(ops))
	for i, op := range ops {
		op.Bound = op.Bound.(fixedClockBound).Bound
		inner[i] = op
	}
	return s.Store.(headgate.HoldStore).ApplyHolds(ctx, at(now, s.now), verb, ttl, inner, results)
}

// heldResult is a response about a hold in a form that all APIs have in common.
type heldResult struct {
	result
	Replayed bool   `json:"replayed"`
	Granted  int64  `json:"granted"`
	Error    string `json:"error"`
}

// holdAsk is one request about holds. Requests with the same id are about the same hold.
type holdAsk struct {
	op         string // check, hold, commit, extend, cancel, debit or take-up-to
	id         string
	ttl        time.Duration
	algorithms []headgate.Algorithm // one check for each
	key        string
	costs      []int64
}

// holders are the open holds of each API, by id.
type holders struct {
	*apis
	library     map[string]*headgate.Hold
	http, redis map[string]string // tokens
	lengths     map[string]int    // numbers of checks
}

func (d *holders) checks(prefix string, q *holdAsk) (all []headgate.Check) {
	for i, a := range q.algorithms {
		all = append(all, headgate.Check{Limiter: d.apis.library[a], Key: prefix + q.key, Cost: q.costs[i]})
	}
	return all
}

func (d *holders) askLibrary(t *testing.T, q *holdAsk) heldResult {
	t.Helper()
	var r headgate.HoldResult
	var err error
	ctx, checks := t.Context(), d.checks("library:", q)
	switch q.op {
	case "check":
		r.Decision, err = headgate.AllowAll(ctx, checks...)
	case "hold":
		h, failed := headgate.HoldAll(ctx, &headgate.HoldOptions{ID: q.id, TTL: q.ttl}, checks...)
		if err = failed; err == nil {
			r.Decision, r.Replayed = h.Decision(), h.Replayed()
			if h.OK() {
				d.library[q.id], d.lengths[q.id] = h, len(checks)
			}
		}
	case "commit":
		r, err = d.library[q.id].Commit(ctx, q.costs...)
	case "cancel":
		r, err = d.library[q.id].Cancel(ctx)
	case "extend":
		r, err = d.library[q.id].Extend(ctx, q.ttl)
	case "debit":
		r.Decision, err = checks[0].Limiter.Debit(ctx, checks[0].Key, checks[0].Cost)
	default:
		r.Granted, r.Decision, err = checks[0].Limiter.TakeUpTo(ctx, checks[0].Key, checks[0].Cost)
	}
	if err != nil {
		return heldResult{Error: errorName(t, err)}
	}
	return heldResult{result: resultOf(r.Decision), Replayed: r.Replayed, Granted: r.Granted}
}

func errorName(t *testing.T, err error) string {
	t.Helper()
	for cause, name := range map[error]string{
		headgate.ErrUnknownHold: "unknown_hold", headgate.ErrExpiredHold: "expired_hold",
		headgate.ErrHoldConflict: "conflict", headgate.ErrTooManyHolds: "too_many_holds",
	} {
		if errors.Is(err, cause) {
			return name
		}
	}
	t.Fatal(err)
	return ""
}

func (d *holders) askHTTP(t *testing.T, q *holdAsk) heldResult {
	t.Helper()
	body := map[string]any{}
	switch q.op {
	case "commit":
		body["hold"], body["actual"] = d.http[q.id], q.costs
	case "cancel":
		body["hold"] = d.http[q.id]
	case "extend":
		body["holds"], body["ttl"] = []string{d.http[q.id]}, q.ttl.String()
	case "hold":
		body["id"], body["ttl"] = q.id, q.ttl.String()
		fallthrough
	default:
		var checks []map[string]any
		for i, a := range q.algorithms {
			checks = append(checks, map[string]any{"policy": a, "key": "http:" + q.key, "cost": q.costs[i]})
		}
		body["checks"] = checks
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(d.apis.http.URL+"/v1/"+q.op+"?deny_status=200", "application/json", strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		heldResult
		Detail, Hold string
		Holds        []struct{ Hold string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || (resp.StatusCode != 200) != (answer.Error != "") {
		t.Fatalf("%+v: status %d, %s, %v", q, resp.StatusCode, answer.Detail, err)
	}
	for _, extended := range answer.Holds {
		answer.Hold = extended.Hold
	}
	if answer.Hold != "" {
		d.http[q.id] = answer.Hold
	}
	return answer.heldResult
}

func (d *holders) askRedis(t *testing.T, q *holdAsk) heldResult {
	t.Helper()
	request := []any{map[string]string{"check": "HG.CHECK", "take-up-to": "HG.UPTO"}[q.op]}
	if request[0] == "" {
		request[0] = "HG." + strings.ToUpper(q.op)
	}
	switch q.op {
	case "commit":
		request = append(request, d.redis[q.id])
		for _, n := range q.costs {
			request = append(request, n)
		}
	case "cancel":
		request = append(request, d.redis[q.id])
	case "extend":
		request = append(request, q.ttl.String(), d.redis[q.id])
	case "hold":
		request = append(request, q.id, q.ttl.String())
		fallthrough
	default:
		for i, a := range q.algorithms {
			request = append(request, string(a), "redis:"+q.key, q.costs[i])
		}
	}
	reply, err := d.apis.redis.Do(t.Context(), request...).Slice()
	if err != nil {
		word, _, _ := strings.Cut(err.Error(), " ")
		name := map[string]string{"NOHOLD": "unknown_hold", "EXPIREDHOLD": "expired_hold", "CONFLICT": "conflict", "TOOMANYHOLDS": "too_many_holds"}[word]
		if name == "" {
			t.Fatalf("%v: %v", request, err)
		}
		return heldResult{Error: name}
	}
	n := make(map[string]int64)
	for i := 0; i+1 < len(reply); i += 2 {
		switch v := reply[i+1].(type) {
		case int64:
			n[reply[i].(string)] = v
		case string:
			if reply[i] == "hold" {
				d.redis[q.id] = v
			}
		case []any:
			if reply[i] == "holds" {
				d.redis[q.id] = v[0].([]any)[3].(string)
			}
		}
	}
	return heldResult{result: result{
		n["allowed"] == 1, n["limit"], n["remaining"], n["retry_after_ms"], n["reset_after_ms"], n["delay_ms"], n["never"] == 1,
	}, Replayed: n["replayed"] == 1, Granted: n["granted"]}
}

func (d *holders) compare(t *testing.T, q *holdAsk) {
	t.Helper()
	want := d.askLibrary(t, q)
	if got := d.askHTTP(t, q); got != want {
		t.Errorf("HTTP, %+v:\n got %+v\nwant %+v", q, got, want)
	}
	if got := d.askRedis(t, q); got != want {
		t.Errorf("RESP, %+v:\n got %+v\nwant %+v", q, got, want)
	}
}

// next returns a random request. It uses an old id from time to time, so that holds are
// opened, committed and extended twice, and after they have expired.
func (d *holders) next(rng *rand.Rand, algorithms []headgate.Algorithm, step int) *holdAsk {
	cost := func() int64 { return []int64{0, 1, 1, 2, 3, 5, 7, 8}[rng.IntN(8)] }
	q := &holdAsk{
		op:  []string{"check", "check", "hold", "hold", "hold", "commit", "commit", "commit", "extend", "cancel", "debit", "take-up-to"}[rng.IntN(12)],
		id:  "id " + strconv.Itoa(max(0, step-rng.IntN(12))),
		ttl: time.Duration(1+rng.IntN(5000)) * time.Millisecond,
		key: string(rune('a' + rng.IntN(2))), costs: []int64{cost()},
	}
	pick := func() headgate.Algorithm {
		a := algorithms[rng.IntN(len(algorithms))]
		for q.op != "hold" && a.OnlyHolds() { // an error; see TestChecksOfConcurrency
			a = algorithms[rng.IntN(len(algorithms))]
		}
		return a
	}
	q.algorithms = []headgate.Algorithm{pick()}
	old := d.library[q.id]
	switch q.op {
	case "commit", "extend", "cancel":
		if old == nil {
			q.op = "check"
			break
		}
		for len(q.costs) < d.lengths[q.id] {
			q.costs = append(q.costs, cost())
		}
	}
	if (q.op == "check" || q.op == "hold") && rng.IntN(3) == 0 {
		q.algorithms, q.costs = append(q.algorithms, pick()), append(q.costs, cost())
	}
	return q
}

// TestAPIsReturnSameHold sends one random timeline of operations on holds through the
// library, HTTP and RESP, over every store as the service opens it.
func TestAPIsReturnSameHold(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func() string{
		"memory":    func() string { return "memory://" },
		"redis":     func() string { return "redis://" + testserver.Redis(t).Addr() },
		"memcached": func() string { return "memcached://" + testserver.Memcached(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := storeopen.Open(url(), &storeopen.Options{Budget: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			sameHolds(t, store)
		})
	}
}

func sameHolds(t *testing.T, inner headgate.Store) {
	var algorithms []headgate.Algorithm
	for _, a := range algo.All() {
		if a.Name.CanHold() {
			algorithms = append(algorithms, a.Name)
		}
	}
	var now atomic.Int64
	now.Store(1_800_000_000_000_000)
	d := &holders{apis: startAPIs(t, fixedClock{inner, &now}), library: map[string]*headgate.Hold{}, http: map[string]string{}, redis: map[string]string{}, lengths: map[string]int{}}
	seed, seen := rand.Uint64(), map[string]int{}
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range 1500 {
		now.Add(rng.Int64N(600_000))
		q := d.next(rng, algorithms, i/4)
		d.compare(t, q)
		seen[q.op]++
		if t.Failed() {
			t.Fatalf("seed %d, step %d", seed, i)
		}
	}
	if len(seen) != 7 {
		t.Errorf("got only %v", seen)
	}
}

package service_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
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
	// Extended has the error of each hold of an extension of two holds, joined with
	// commas; empty if both have an error, because Error is then that of the first.
	Extended string `json:"-"`
}

// holdAsk is one request about holds. Requests with the same id are about the same hold.
type holdAsk struct {
	op         string // check, peek, refund, reset, hold, commit, extend, cancel, debit or take-up-to
	id         string
	second     string // for extend: the id of another hold, or empty
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
	seen        map[string]int    // number of requests, by op
	at          int64             // instant of the present request
	replayed    *replayLog        // log for package replay; nil if none is written
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
		if q.second != "" {
			return d.extendTwo(t, q)
		}
		r, err = d.library[q.id].Extend(ctx, q.ttl)
	case "peek":
		r.Decision, err = checks[0].Limiter.PeekN(ctx, checks[0].Key, checks[0].Cost)
	case "refund":
		r.Decision, err = checks[0].Limiter.RefundN(ctx, checks[0].Key, checks[0].Cost)
	case "reset":
		r.Decision, err = checks[0].Limiter.Reset(ctx, checks[0].Key)
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

// extendTwo extends two holds in one call.
func (d *holders) extendTwo(t *testing.T, q *holdAsk) heldResult {
	t.Helper()
	results, err := headgate.ExtendAll(t.Context(), q.ttl, d.library[q.id], d.library[q.second])
	if err != nil {
		t.Fatal(err)
	}
	return extensionOf(errorName(t, results[0].Err), errorName(t, results[1].Err))
}

// extensionOf returns the result of an extension of two holds with the given errors.
func extensionOf(first, second string) heldResult {
	if first != "" && second != "" {
		return heldResult{Error: first}
	}
	return heldResult{Extended: first + "," + second}
}

// errorName returns the name of an error in the responses of the service, or "" for nil.
func errorName(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
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
		tokens := []string{d.http[q.id]}
		if q.second != "" {
			tokens = append(tokens, d.http[q.second])
		}
		body["holds"], body["ttl"] = tokens, q.ttl.String()
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
		Holds        []struct{ Hold, Error string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || (resp.StatusCode != 200) != (answer.Error != "") {
		t.Fatalf("%+v: status %d, %s, %v", q, resp.StatusCode, answer.Detail, err)
	}
	if len(answer.Holds) == 2 {
		d.http[q.id] = cmp.Or(answer.Holds[0].Hold, d.http[q.id])
		d.http[q.second] = cmp.Or(answer.Holds[1].Hold, d.http[q.second])
		return extensionOf(answer.Holds[0].Error, answer.Holds[1].Error)
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
		if q.second != "" {
			request = append(request, d.redis[q.second])
		}
	case "reset":
		return d.sendRedis(t, q, append(request, string(q.algorithms[0]), "redis:"+q.key))
	case "hold":
		request = append(request, q.id, q.ttl.String())
		fallthrough
	default:
		for i, a := range q.algorithms {
			request = append(request, string(a), "redis:"+q.key, q.costs[i])
		}
	}
	return d.sendRedis(t, q, request)
}

func (d *holders) sendRedis(t *testing.T, q *holdAsk, request []any) heldResult {
	t.Helper()
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
			if reply[i] != "holds" {
				continue
			}
			if q.second != "" {
				return extensionOf(d.extendedRedis(q.id, v[0]), d.extendedRedis(q.second, v[1]))
			}
			d.extendedRedis(q.id, v[0])
		}
	}
	return heldResult{result: result{
		n["allowed"] == 1, n["limit"], n["remaining"], n["retry_after_ms"], n["reset_after_ms"], n["delay_ms"], n["never"] == 1,
	}, Replayed: n["replayed"] == 1, Granted: n["granted"]}
}

// extendedRedis keeps the token in the reply for one hold of an extension, and returns
// the error in it.
func (d *holders) extendedRedis(id string, reply any) (errorName string) {
	for pair := range slices.Chunk(reply.([]any), 2) {
		switch pair[0] {
		case "hold":
			d.redis[id] = pair[1].(string)
		case "error":
			errorName = pair[1].(string)
		}
	}
	return errorName
}

func (d *holders) compare(t *testing.T, q *holdAsk) {
	t.Helper()
	want := d.askLibrary(t, q)
	d.record(q, want)
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
		op: []string{
			"check", "check", "peek", "refund", "reset", "hold", "hold", "hold", "hold",
			"commit", "commit", "commit", "extend", "extend", "cancel", "debit", "take-up-to",
		}[rng.IntN(17)],
		id:  "id " + strconv.Itoa(max(0, step-rng.IntN(12))),
		ttl: time.Duration(1+rng.IntN(5000)) * time.Millisecond,
		key: string(rune('a' + rng.IntN(2))), costs: []int64{cost()},
	}
	pick := func() headgate.Algorithm {
		a := algorithms[rng.IntN(len(algorithms))]
		// All other operations are errors; see TestChecksOfConcurrency.
		for !slices.Contains([]string{"hold", "peek", "reset"}, q.op) && a.OnlyHolds() {
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
		other := "id " + strconv.Itoa(max(0, step-rng.IntN(12)))
		if q.op == "extend" && other != q.id && d.library[other] != nil && d.replayed == nil {
			q.second = other
		}
	}
	if d.replayed != nil {
		return q
	}
	if (q.op == "check" || q.op == "hold") && rng.IntN(3) == 0 {
		q.algorithms, q.costs = append(q.algorithms, pick()), append(q.costs, cost())
	}
	return q
}

// TestAPIsReturnSameHold sends one random timeline of operations on holds through the
// library, HTTP and RESP, over every store as the service opens it.
// TestReplayReturnsSameHold sends one through package replay.
func TestAPIsReturnSameHold(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func() string{
		"memory":    func() string { return "memory://" },
		"redis":     func() string { return "redis://" + testserver.Redis(t).Addr() },
		"memcached": func() string { return "memcached://" + testserver.Memcached(t).Addr() },
		"cluster": func() string {
			return "redis+cluster://" + strings.Join(testserver.Cluster(t, 3, 0).Addrs(), ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "cluster" && testing.Short() {
				t.Skip("starting a cluster takes seconds; the long tests do it")
			}
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
	now := newClock()
	d := newHolders(startAPIs(t, fixedClock{inner, now}))
	d.playTimeline(t, now)
	if t.Failed() {
		return
	}
	if len(d.seen) != 10 {
		t.Errorf("got only %v", d.seen)
	}
}

func newClock() *atomic.Int64 {
	var now atomic.Int64
	now.Store(1_800_000_000_000_000)
	return &now
}

func newHolders(a *apis) *holders {
	return &holders{
		apis: a, library: map[string]*headgate.Hold{}, http: map[string]string{}, redis: map[string]string{},
		lengths: map[string]int{}, seen: map[string]int{},
	}
}

// playTimeline sends 1,500 random requests to every API and compares the responses.
func (d *holders) playTimeline(t *testing.T, now *atomic.Int64) {
	var algorithms []headgate.Algorithm
	for _, a := range algo.All() {
		if a.Name.CanHold() {
			algorithms = append(algorithms, a.Name)
		}
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range 1500 {
		now.Add(rng.Int64N(600_000))
		q := d.next(rng, algorithms, i/4)
		d.at = now.Load()
		d.compare(t, q)
		d.seen[q.op]++
		if t.Failed() {
			t.Fatalf("seed %d, step %d", seed, i)
		}
	}
}

package main

import (
	"bytes"
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/llmusage"
	"github.com/headgate/headgate/memstore"
)

const (
	simulatedTenants = 200
	simulatedTime    = 5 * time.Minute
)

// ending is how a simulated request ends.
type ending int

const (
	completes ending = iota
	aborts           // the client disconnects in the middle of the answer
	fails            // the upstream answers with 503
	vanishes         // the gateway dies: nothing is committed
)

// call is an admitted request of a tenant.
type call struct {
	begin, end time.Time
	how        ending
	estimate   llmusage.Usage
	real       llmusage.Usage // what the upstream has done until the end
	committed  []int64
	body       io.ReadCloser
}

// scriptedModel answers with the usage that the request contains.
type scriptedModel struct{}

func (scriptedModel) RoundTrip(r *http.Request) (*http.Response, error) {
	var script struct {
		Input, Output int64
		Fail          bool
	}
	if err := json.NewDecoder(r.Body).Decode(&script); err != nil {
		return nil, err
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r}
	var b bytes.Buffer
	if script.Fail {
		resp.StatusCode = http.StatusServiceUnavailable
	} else {
		for range 5 {
			b.WriteString(`data: {"choices":[{"delta":{"content":"hello"}}],"usage":null}` + "\n\n")
		}
		fmt.Fprintf(&b, `data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`+"\n\n", script.Input, script.Output)
	}
	resp.Body = io.NopCloser(&b)
	return resp, nil
}

// tenant has the requests of one tenant.
type tenant struct {
	gateway
	name    string
	random  *rand.Rand
	at      time.Time
	done    []*call
	denied  int
	current *call // call whose answer is being read
	errs    []error
}

func newTenant(l *limits, i int) *tenant {
	n := &tenant{name: fmt.Sprint("tenant ", i), random: rand.New(rand.NewPCG(7, uint64(i)))}
	n.gateway = gateway{limits: l, upstream: "http://model.test", client: &http.Client{Transport: scriptedModel{}}, now: func() time.Time { return n.at }}
	n.gateway.done = func(r llmusage.Result) {
		n.current.committed = r.Actual
		if r.Err != nil {
			n.errs = append(n.errs, r.Err)
		}
	}
	return n
}

// event is the start or the end of a request.
type event struct {
	at     time.Time
	tenant *tenant
	call   *call // nil for the start of a request
}

// events is a heap of events by time.
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// simulate sends the requests of all tenants in the order of time. Requests begin until
// end, and take up to 20 seconds.
func simulate(ctx context.Context, tenants []*tenant, begin, end time.Time) {
	var queue events
	for _, n := range tenants {
		heap.Push(&queue, event{begin.Add(n.pause()), n, nil})
	}
	for len(queue) > 0 {
		e := heap.Pop(&queue).(event)
		n := e.tenant
		if n.at = e.at; e.call != nil {
			n.finish(e.call)
			continue
		}
		if c := n.begin(ctx); c != nil {
			heap.Push(&queue, event{c.end, n, c})
		}
		if next := n.at.Add(n.pause()); next.Before(end) {
			heap.Push(&queue, event{next, n, nil})
		}
	}
}

// pause returns the time until the next request of the tenant.
func (n *tenant) pause() time.Duration {
	return time.Duration(n.random.ExpFloat64() * float64(1500*time.Millisecond))
}

// begin sends a request, and returns nil if it is denied. Its real input is up to half
// more or less than its estimate.
func (n *tenant) begin(ctx context.Context) *call {
	c := &call{begin: n.at, end: n.at.Add(time.Duration(n.random.Int64N(int64(20 * time.Second))))}
	switch p := n.random.IntN(100); {
	case p < 30:
		c.how = aborts
	case p < 35:
		c.how = fails
	case p < 36:
		c.how = vanishes
	}
	input := 100 + n.random.Int64N(2000)
	c.estimate = llmusage.Usage{Input: input, Output: 1 + n.random.Int64N(3000)}
	c.real = llmusage.Usage{Input: input/2 + n.random.Int64N(input+1), Output: 1 + n.random.Int64N(c.estimate.Output)}
	body := fmt.Sprintf(`{"input":%d,"output":%d,"fail":%v}`, c.real.Input, c.real.Output, c.how == fails)
	switch c.how {
	case fails:
		c.real = llmusage.Usage{}
	case aborts, vanishes:
		c.real.Output = n.random.Int64N(c.real.Output + 1) // until the client disconnected
	}
	resp, hold, err := n.gateway.open(ctx, n.at, n.name, &request{[]byte(body), c.estimate})
	if err != nil {
		n.errs = append(n.errs, err)
		return nil
	}
	if !hold.OK() {
		n.denied++
		return nil
	}
	c.body = resp.Body
	return c
}

// finish ends a request as it was planned.
func (n *tenant) finish(c *call) {
	n.current = c
	n.done = append(n.done, c)
	switch c.how {
	case vanishes:
		c.committed, c.end = costsOf(c.estimate), c.begin.Add(holdTTL)
		return
	case aborts:
		_, _ = io.CopyN(io.Discard, c.body, 100)
	default:
		_, _ = io.Copy(io.Discard, c.body)
	}
	_ = c.body.Close()
}

// 200 tenants send requests for 5 minutes of simulated time; 30 % of the answers are
// aborted, and some fail or lose their gateway. In no span of time is the real cost of
// the requests that began in it above the limit by more than what was underestimated, and
// when all requests have ended, every limit is exactly as if only they had been charged.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	simulated := slices.Clone(policies)
	simulated[2] = headgate.MustNamedPolicy("spending", "1800000/month") // so that it is spent
	shared, err := newLimits(store, simulated)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	tenants := make([]*tenant, simulatedTenants)
	for i := range tenants {
		tenants[i] = newTenant(shared, i)
	}
	simulate(t.Context(), tenants, begin, begin.Add(simulatedTime))
	admitted, denied, aborted, under := 0, 0, 0, 0
	for _, n := range tenants {
		n.check(t)
		admitted, denied = admitted+len(n.done), denied+n.denied
		for _, c := range n.done {
			if c.how == aborts {
				aborted++
			}
			if c.real.Total() > c.estimate.Total() {
				under++
			}
		}
	}
	if holds := store.Stats().Holds; holds > len(tenants) {
		t.Errorf("%d holds are stored after all have ended", holds)
	}
	t.Logf("%d requests were allowed, %d denied, %d aborted, %d underestimated", admitted, denied, aborted, under)
	if share := float64(aborted) / float64(admitted); share < 0.28 || share > 0.32 || denied < 1000 || under < 1000 {
		t.Errorf("got %d allowed, %d denied, %d aborted, %d underestimated: too few to show anything", admitted, denied, aborted, under)
	}
}

// check judges the requests of a tenant after they have ended.
func (n *tenant) check(t *testing.T) {
	if len(n.errs) > 0 {
		t.Errorf("%s: %d errors, the first: %v", n.name, len(n.errs), n.errs[0])
	}
	n.checkBucket(t, 0, policies[0].Limits[0])
	n.checkBucket(t, 1, policies[1].Limits[0])
	n.checkBudget(t, n.limits.all[2].Policy().Limits[0].Rate)
	n.checkStreams(t, int(n.limits.all[3].Policy().Limits[0].Rate))
	n.checkNothingLeaks(t)
}

// checkStreams checks that there were never more streams than allowed. A stream whose
// gateway has died counts until its hold expires.
func (n *tenant) checkStreams(t *testing.T, most int) {
	for _, c := range n.done {
		open := 0
		for _, other := range n.done {
			if !other.begin.After(c.begin) && other.end.After(c.begin) {
				open++
			}
		}
		if open > most {
			t.Errorf("%s: %d streams at %v, want at most %d", n.name, open, c.begin, most)
			return
		}
	}
}

// checkBudget compares the money that was spent with the budget.
func (n *tenant) checkBudget(t *testing.T, budget int64) {
	var real, excess int64
	for _, c := range n.done {
		real, excess = real+price(c.real), excess+max(0, price(c.real)-price(c.estimate))
	}
	if real > budget+excess {
		t.Errorf("%s: %d were spent of %d, and %d were underestimated", n.name, real, budget, excess)
	}
}

// checkBucket compares each span of time with the bound of a bucket.
func (n *tenant) checkBucket(t *testing.T, index int, limit headgate.Limit) {
	all := slices.SortedFunc(slices.Values(n.done), func(a, b *call) int { return a.begin.Compare(b.begin) })
	period := int64(limit.Period / time.Microsecond)
	for i := range all {
		var real, excess int64
		for j := i; j < len(all); j++ {
			actual, estimate := costsOf(all[j].real)[index], costsOf(all[j].estimate)[index]
			real, excess = real+actual, excess+max(0, actual-estimate)
			span := all[j].begin.Sub(all[i].begin).Microseconds()
			if (real-excess-limit.Capacity())*period > span*limit.Rate {
				t.Errorf("%s: %d units in %d µs from %v, of which %d were underestimated: above %v", n.name, real, span, all[i].begin, excess, limit)
				return
			}
		}
	}
}

// checkNothingLeaks checks that the buckets are full after a while, and that the budget
// of the month has exactly what was committed.
func (n *tenant) checkNothingLeaks(t *testing.T) {
	spent := int64(0)
	for _, c := range n.done {
		spent += c.committed[2]
	}
	d, err := n.limits.decisions(t.Context(), n.at.Add(time.Hour), n.name, make([]int64, len(policies)))
	if err != nil {
		t.Error(err)
		return
	}
	for i, p := range policies[:2] {
		if want := p.Limits[0].Capacity(); d[i].Remaining != want {
			t.Errorf("%s: after an hour %d of %s remain, want all %d", n.name, d[i].Remaining, p.Name, want)
		}
	}
	if d[3].Remaining != d[3].Limit {
		t.Errorf("%s: %d of %d streams are free after an hour, want all", n.name, d[3].Remaining, d[3].Limit)
	}
	if want := max(0, n.limits.all[2].Policy().Limits[0].Rate-spent); d[2].Remaining != want {
		t.Errorf("%s: %d of the budget remain, want %d", n.name, d[2].Remaining, want)
	}
}

package respapi

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/memstore"
)

func TestMain(m *testing.M) {
	leaktest.Main(m)
}

// start is the first instant of tests with a fixed clock.
const start = headgate.Instant(1_747_785_600_000_000)

// frozen is a memory store whose clock is set by the test.
type frozen struct {
	headgate.Store
	now atomic.Int64
}

func newFrozen(t testing.TB) *frozen {
	f := &frozen{Store: memstore.New(&memstore.Options{MaxEntries: 500})}
	f.now.Store(int64(start))
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func (f *frozen) at(d time.Duration) { f.now.Store(int64(start) + d.Microseconds()) }

func (f *frozen) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := f.Store.Bind(rule)
	return frozenBound{b, f}, err
}

func (f *frozen) ApplyAll(ctx context.Context, _ headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	inner := make([]headgate.Op, len(ops))
	for i, op := range ops {
		inner[i] = headgate.Op{Bound: op.Bound.(frozenBound).Bound, Key: op.Key, Cost: op.Cost}
	}
	return f.Store.ApplyAll(ctx, headgate.Instant(f.now.Load()), inner, peek, decisions)
}

func (f *frozen) ApplyHolds(
	ctx context.Context, _ headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	inner := make([]headgate.HoldOp, len(ops))
	for i, op := range ops {
		op.Bound = op.Bound.(frozenBound).Bound
		inner[i] = op
	}
	return f.Store.(headgate.HoldStore).ApplyHolds(ctx, headgate.Instant(f.now.Load()), verb, ttl, inner, results)
}

type frozenBound struct {
	headgate.Bound
	f *frozen
}

func (b frozenBound) Apply(ctx context.Context, _ headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	return b.Bound.Apply(ctx, headgate.Instant(b.f.now.Load()), key, v, cost)
}

var policies = &engine.Options{Policies: map[string]headgate.Policy{
	"login": {Limits: []headgate.Limit{headgate.MustParseLimit("5/15m"), headgate.MustParseLimit("20/24h")}, Algorithm: headgate.SlidingLog},
	"api":   {Limits: []headgate.Limit{headgate.MustParseLimit("100/s burst 200")}},
	"large": {Limits: []headgate.Limit{headgate.MustParseLimit("9007199254740991/15m")}, Algorithm: headgate.FixedWindow},
	"queue": {Limits: []headgate.Limit{headgate.MustParseLimit("10/s queue 5")}, Algorithm: headgate.LeakyBucket},
	"open":  {Limits: []headgate.Limit{headgate.MustParseLimit("5/15m")}, OnStoreError: headgate.FailOpen},
}}

func mustEngine(t testing.TB, store headgate.Store, opts *engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// client is a session without a network connection.
type client struct {
	t testing.TB
	w *worker
	s *session
}

func (h *Handler) newClient(t testing.TB) *client {
	return &client{t, h.newWorker(t.Context()), h.newSession("192.0.2.1:1", "192.0.2.2:2")}
}

// send passes input that ends with a complete request, and returns the replies.
func (c *client) send(input string) string {
	c.t.Helper()
	in, out := []byte(input), strings.Builder{}
	for len(in) > 0 && !c.s.closing {
		n := c.w.serve(c.s, in)
		out.Write(c.w.out)
		c.w.out = c.w.out[:0]
		if n == 0 {
			c.t.Fatalf("%q was not run as a whole: %q is left", input, in)
		}
		in = in[n:]
	}
	return out.String()
}

// do sends one request.
func (c *client) do(args ...string) string {
	c.t.Helper()
	return c.send(request(args...))
}

// request encodes a request.
func request(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// numbersReply encodes an array of numbers.
func numbersReply(numbers ...int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(numbers))
	for _, n := range numbers {
		fmt.Fprintf(&b, ":%d\r\n", n)
	}
	return b.String()
}

func words(line string) []string { return strings.Fields(line) }

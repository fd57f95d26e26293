package respapi

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// everyAlgorithm has one policy for each algorithm.
func everyAlgorithm() map[string]headgate.Policy {
	all := make(map[string]headgate.Policy)
	for _, a := range algo.Rates() {
		limit := "7/3s burst 12"
		switch {
		case a.Name.Queues():
			limit = "7/3s queue 9"
		case a.Name.Windowed():
			limit = "9/1s"
		}
		all[string(a.Name)] = headgate.Policy{Name: string(a.Name), Algorithm: a.Name, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}}
	}
	all["two"] = headgate.Policy{Name: "two", Limits: []headgate.Limit{headgate.MustParseLimit("5/1s"), headgate.MustParseLimit("20/10s")}}
	return all
}

// TestSameDecisionsAsLimiter: for every algorithm, random requests over RESP and to a
// limiter in this process give the same decisions.
func TestSameDecisionsAsLimiter(t *testing.T) {
	t.Parallel()
	for _, networked := range []bool{false, true} {
		t.Run(fmt.Sprintf("memory, networked %v", networked), func(t *testing.T) {
			t.Parallel()
			sameAnswers(t, newFrozen(t), networked, 5000)
		})
	}
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := testserver.Redis(t)
		store, err := redisstore.Open("redis://"+server.Addr(), nil)
		if err != nil {
			t.Fatal(err)
		}
		f := &frozen{Store: store}
		t.Cleanup(func() { _ = store.Close() })
		sameAnswers(t, f, true, 1500)
	})
}

func sameAnswers(t *testing.T, f *frozen, networked bool, steps int) {
	own := memstore.New(&memstore.Options{MaxEntries: 500})
	defer own.Close()
	all := everyAlgorithm()
	limiters := make(map[string]*headgate.Limiter)
	var names []string
	for name, policy := range all {
		l, err := headgate.New(own, policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		limiters[name] = l
		names = append(names, name)
	}
	throttle, err := headgate.New(own, headgate.Policy{Name: "throttle", Limits: []headgate.Limit{headgate.MustParseLimit("30/60s burst 16")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := New(mustEngine(t, f, &engine.Options{Policies: all}), &Options{Networked: networked}).newClient(t)
	r := rand.New(rand.NewPCG(3, 4))
	now := start
	for i := range steps {
		now += headgate.Instant(r.Int64N(700_000))
		f.now.Store(int64(now))
		key, cost := strconv.Itoa(r.IntN(3)), r.Int64N(6)
		if r.IntN(6) == 0 {
			verb := headgate.Take
			quantity := cost
			if r.IntN(4) == 0 {
				verb, quantity = headgate.Refund, -cost
			}
			d := mustDecide(t, throttle, now, key, verb, cost)
			want := numbersReply(btoi(!d.Allowed), d.Limit, d.Remaining, retryOf(d), redisCellSeconds(d.ResetAfter))
			if got := c.do("CL.THROTTLE", key, "15", "30", "60", strconv.FormatInt(quantity, 10)); got != want {
				t.Fatalf("step %d, CL.THROTTLE %d at %d: got %q, want %q", i, quantity, now, got, want)
			}
			continue
		}
		name, verb := names[r.IntN(len(names))], headgate.Verb(max(0, r.IntN(8)-4))
		d := mustDecide(t, limiters[name], now, key, verb, cost)
		got := c.do([...]string{"HG.CHECK", "HG.PEEK", "HG.REFUND", "HG.RESET"}[verb], name, key, strconv.FormatInt(cost, 10))
		if want := hgReplyTo(name, d); got != want {
			t.Fatalf("step %d, %v %d of %s at %d:\n got %q\nwant %q", i, verb, cost, name, now, got, want)
		}
	}
}

func mustDecide(t *testing.T, l *headgate.Limiter, now headgate.Instant, key string, verb headgate.Verb, cost int64) headgate.Decision {
	t.Helper()
	var d headgate.Decision
	var err error
	switch verb {
	case headgate.Take:
		d, err = l.AllowAt(t.Context(), now.Time(), key, cost)
	case headgate.Peek:
		d, err = l.PeekAt(t.Context(), now.Time(), key, cost)
	case headgate.Refund:
		d, err = l.RefundAt(t.Context(), now.Time(), key, cost)
	default:
		d, err = l.ResetAt(t.Context(), now.Time(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func retryOf(d headgate.Decision) int64 {
	if d.Allowed || d.Never {
		return -1
	}
	return redisCellSeconds(d.RetryAfter)
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// hgReplyTo encodes d as the reply of HG.*.
func hgReplyTo(policy string, d headgate.Decision) string {
	ms := func(wait time.Duration) string { return fmt.Sprintf(":%d", (wait+time.Millisecond-1)/time.Millisecond) }
	flag := func(b bool) string { return fmt.Sprintf(":%d", btoi(b)) }
	denied := fmt.Sprintf("*%d", len(d.DeniedBy))
	for _, name := range d.DeniedBy {
		denied += fmt.Sprintf(" $%d %s", len(name), name)
	}
	return hgReply("*20", flag(d.Allowed), fmt.Sprintf(":%d", d.Limit), fmt.Sprintf(":%d", d.Remaining), ms(d.RetryAfter), ms(d.ResetAfter),
		ms(d.Delay), flag(d.Never), fmt.Sprintf("$%d %s", len(policy), policy), denied, flag(d.Degraded != headgate.ReasonNone))
}

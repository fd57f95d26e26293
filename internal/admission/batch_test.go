package admission_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/key"
	"github.com/headgate/headgate/memstore"
)

func bind(t *testing.T, store headgate.Store, a headgate.Algorithm, limit string) headgate.Bound {
	t.Helper()
	b, err := store.Bind(headgate.Rule{Scope: limit, Limit: headgate.MustParseLimit(limit), Algorithm: a})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A reservation is cancelled once, and only before it is due.
func TestCancelPlace(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	var b admission.Batch
	b.Add(bind(t, store, headgate.LeakyBucket, "1000/1s queue 9"), true, "k", 9)
	for range 2 {
		if err := b.Take(t.Context(), store, headgate.StoreClock); err != nil {
			t.Fatal(err)
		}
		if err := b.Await(t.Context(), b.Decisions[0].Delay); err != nil {
			t.Fatal(err)
		}
		if cancelled, _, err := b.CancelPlace(t.Context(), headgate.StoreClock); err != nil || cancelled {
			t.Errorf("after its turn: got %v, error %v want nothing cancelled", cancelled, err)
		}
	}
	b.Reset()
	b.Add(bind(t, store, headgate.LeakyBucket, "1/1h queue 9"), true, "k", 1)
	for i := range 2 {
		if err := b.Take(t.Context(), store, headgate.StoreClock); err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{i == 1, false} {
			if cancelled, _, err := b.CancelPlace(t.Context(), headgate.StoreClock); err != nil || cancelled != want {
				t.Errorf("request %d: got %v, error %v want %v", i+1, cancelled, err, want)
			}
		}
	}
}

// A request with a queue and another limit spends nothing if its turn is after its
// deadline. Without a deadline, or before it, it spends both.
func TestTakeAfterDeadline(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	bucket, queue := bind(t, store, headgate.TokenBucket, "9/1h"), bind(t, store, headgate.LeakyBucket, "1/1h queue 9")
	var b admission.Batch
	for i, tt := range []struct {
		timeout time.Duration
		left    int64
		delay   time.Duration
	}{{0, 8, 0}, {time.Minute, 8, time.Hour}, {2 * time.Hour, 7, time.Hour}, {0, 6, 2 * time.Hour}} {
		ctx, cancel := context.WithCancel(t.Context())
		if tt.timeout > 0 {
			ctx, cancel = context.WithTimeout(t.Context(), tt.timeout)
		}
		b.Reset()
		b.Add(bucket, false, "k", 1)
		b.Add(queue, true, "k", 1)
		if err := b.Take(ctx, store, headgate.StoreClock); err != nil {
			t.Fatal(err)
		}
		if d := b.Decisions[1]; !d.Allowed || d.Delay.Round(time.Minute) != tt.delay {
			t.Errorf("request %d: got %+v want a delay of %v", i+1, d, tt.delay)
		}
		if tt.timeout != time.Minute {
			cancel() // the client leaves
		}
		want := map[bool]error{true: context.DeadlineExceeded, false: context.Canceled}[tt.timeout == time.Minute]
		if err := b.Await(ctx, b.Decisions[1].Delay); tt.delay > 0 && !errors.Is(err, want) {
			t.Errorf("request %d: got error %v want %v", i+1, err, want)
		}
		cancel()
		if d, err := bucket.Apply(t.Context(), headgate.StoreClock, "k", headgate.Peek, 0); err != nil || d.Remaining != tt.left {
			t.Errorf("request %d: got %d units left, error %v want %d", i+1, d.Remaining, err, tt.left)
		}
	}
}

func TestBatchDoesNotAllocate(t *testing.T) {
	store := memstore.New(nil)
	bucket, queue := bind(t, store, headgate.TokenBucket, "1000000/1s"), bind(t, store, headgate.LeakyBucket, "1000000/1s queue 1000000")
	var b admission.Batch
	for name, bound := range map[string]headgate.Bound{"bucket": bucket, "queue": queue} {
		if n := testing.AllocsPerRun(1000, func() {
			b.Reset()
			b.Add(bound, name == "queue", "k", 1)
			if err := b.Take(context.Background(), store, headgate.StoreClock); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: got %v allocations want 0", name, n)
		}
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	binder := admission.Binder{Store: memstore.New(nil)}
	charge := func(p headgate.Policy, keys string) admission.Charge {
		t.Helper()
		c, err := binder.Bind(p, keys)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	named := headgate.MustPolicy("5/1m")
	named.Name = "named"
	one, two := charge(headgate.MustPolicy("5/1m", "9/1h"), ""), charge(headgate.MustPolicy("5/1m"), "header X")
	for i, got := range []string{one.Limits[0].Name, one.Limits[1].Name, two.Limits[0].Name, charge(named, "").Limits[0].Name} {
		if want := []string{"default", "default-2", "default-3", "named"}[i]; got != want {
			t.Errorf("limit %d: got name %q want %q", i, got, want)
		}
	}
	if _, err := (&admission.Binder{}).Bind(named, ""); err == nil {
		t.Error("without a store: got no error")
	}
}

// client is a request with one text.
type client string

func (client) Addr() (none netip.Addr) { return none }

// part is a key part that returns the text.
type part struct{}

func (part) Read(c client) string { return string(c) }

func TestCheck(t *testing.T) {
	t.Parallel()
	keyOf := func(p key.Part[client]) *key.Key[client] {
		k, err := p.Key(key.Address[client](64))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	address, header := keyOf(key.Part[client]{}), keyOf(key.Text[client]("header:x", part{}))
	function, other := keyOf(key.Func[client](func() {}, part{})), keyOf(key.Func[client](func() {}, part{}))
	unnamed, named := headgate.MustPolicy("5/1m"), headgate.MustPolicy("5/1m")
	named.Name = "named"
	invalid := errors.New("invalid")
	for _, tt := range []struct {
		name                  string
		policy                headgate.Policy
		a, b                  *key.Key[client]
		byKind, withoutByKind bool // Check returns an error
	}{
		{"a policy without a name by one kind of key", unnamed, address, address, false, false},
		{"a policy without a name by two kinds of key", unnamed, address, header, false, true},
		{"a policy without a name by two functions", unnamed, function, other, true, true},
		{"a name by one kind of key", named, header, header, false, false},
		{"a name by two kinds of key", named, address, header, true, true},
	} {
		all := []admission.Keyed[client]{{Policy: tt.policy, Key: tt.a}, {Policy: tt.policy, Key: tt.b}}
		if err := admission.Check(all, true, invalid); errors.Is(err, invalid) != tt.byKind {
			t.Errorf("%s, kinds count apart: got error %v want one: %v", tt.name, err, tt.byKind)
		}
		if err := admission.Check(all, false, invalid); errors.Is(err, invalid) != tt.withoutByKind {
			t.Errorf("%s: got error %v want one: %v", tt.name, err, tt.withoutByKind)
		}
	}
}

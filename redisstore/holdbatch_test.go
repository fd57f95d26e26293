package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
)

// A batch of operations on a key, most of which open holds without decoding the earlier
// ones, has the same results as one call for each, and leaves the same value.
func TestBatchOfHoldsEqualsSingleCalls(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := newEditedStore(t, server.Addr())
	for _, a := range algo.Rates() {
		if !a.Name.CanHold() || a.NewLog != nil {
			continue
		}
		limit := "40/1m"
		if a.Name.HasCalendar() {
			limit = "40/hour"
		}
		b, err := s.Bind(headgate.Rule{Scope: "s", Limit: headgate.MustParseLimit(limit), Algorithm: a.Name})
		if err != nil {
			t.Fatal(err)
		}
		for at := range 6 { // the position of a take
			one, each := &group{now: 1_790_000_000_000_000}, []*group{}
			for i := range 6 {
				for _, key := range []string{"one", "each"} {
					o := holdOrTake(b.(*rule), fmt.Sprint(key, at), i, i == at)
					if key == "one" {
						one.add(o)
						continue
					}
					g := &group{now: one.now}
					g.add(o)
					each = append(each, g)
				}
			}
			s.send(t.Context(), []*group{one})
			for i, g := range each {
				s.send(t.Context(), []*group{g})
				got, want := one.keys[0].ops[i], g.keys[0].ops[0]
				if got.err != nil || fmt.Sprint(got.decision, got.after) != fmt.Sprint(want.decision, want.after) {
					t.Errorf("%s, take at %d: op %d: got %v %v, error %v want %v %v", a.Name, at, i, got.decision, got.after, got.err, want.decision, want.after)
				}
				if got.hold != nil && (got.hold.status != want.hold.status || got.hold.deadline != want.hold.deadline) {
					t.Errorf("%s, take at %d: op %d: got %+v want %+v", a.Name, at, i, got.hold, want.hold)
				}
			}
			got, want := server.Do(t, "GET", one.keys[0].redisKey).Text, server.Do(t, "GET", each[0].keys[0].redisKey).Text
			if got != want || len(got) < 5*44 {
				t.Errorf("%s, take at %d: got value %x want %x", a.Name, at, got, want)
			}
		}
	}
}

// holdOrTake returns a take of 3 units, or an operation that opens a hold of 3 units.
func holdOrTake(r *rule, key string, i int, take bool) *op {
	o := r.newOp(headgate.Instant(1_790_000_000_000_000), key, algo.Take, 3)
	if !take {
		o.request.Verb = verbOpen
		o.hold = &holdOp{id: headgate.HoldID{byte(i)}, ttl: (time.Minute + time.Duration(i%3)*time.Second).Microseconds(), private: i%2 > 0}
	}
	return o
}

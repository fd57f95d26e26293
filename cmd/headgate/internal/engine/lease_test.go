package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

// plainStore hides the leases of a store.
type plainStore struct{ headgate.Store }

func TestLease(t *testing.T) {
	t.Parallel()
	limit := &engine.InlineLimit{Scope: "s", Limit: headgate.MustParseLimit("10/1h"), Algorithm: headgate.TokenBucket}
	op := headgate.LeaseOp{Key: "k", ID: headgate.NewHoldID(), Want: 4, Max: 10, TTL: time.Minute}
	store := memstore.New(nil)
	defer store.Close()
	e, err := engine.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := e.ActiveConfig().Lease(t.Context(), headgate.StoreClock, limit, op); err != nil || r.Units != 4 || r.Remaining != 6 {
		t.Errorf("got %+v, error %v want 4 units and 6 remaining", r, err)
	}
	var a engine.Answer
	check := []engine.Check{{Inline: limit, Key: "k", Cost: 7}}
	if err := e.ActiveConfig().DecideAt(t.Context(), headgate.StoreClock, headgate.Take, check, &a); err != nil || a.Decisions[0].Allowed {
		t.Errorf("a take of 7 while 4 of 10 units are on lease: got %+v, error %v want a denial", a.Decisions, err)
	}
	if _, err := e.ActiveConfig().Lease(t.Context(), headgate.StoreClock, &engine.InlineLimit{Limit: headgate.Limit{Rate: -1}}, op); err == nil {
		t.Error("an invalid limit: got no error")
	}
	if e, err = engine.New(plainStore{store}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.ActiveConfig().Lease(t.Context(), headgate.StoreClock, limit, op); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("a store without leases: got error %v want ErrUnsupported", err)
	}
}

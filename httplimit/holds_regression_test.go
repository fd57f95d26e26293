package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// A request whose cost is capped owes nothing when its slot is released.
func TestCappedCostWithSlots(t *testing.T) {
	store := memstore.New(nil)
	p := policy("rate", "10/1h")
	p.Holds.CapAmount = true
	limit := newMiddlewareOn(t, store, nil,
		httplimit.Charge{Policy: p, Key: httplimit.Global(), Cost: func(*http.Request) int64 { return 50 }},
		httplimit.Charge{Policy: policy("slots", "2 concurrent"), Key: httplimit.Global()})
	l, err := headgate.New(store, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var during headgate.Decision
	limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		during, _ = l.PeekN(context.Background(), "", 1)
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	after, _ := l.PeekN(context.Background(), "", 1)
	if after.RetryAfter > during.RetryAfter {
		t.Errorf("wait for one unit: %v during the request, %v after it", during.RetryAfter, after.RetryAfter)
	}
}

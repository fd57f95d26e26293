package api

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// [snippet store]
// fixedStore always returns the same decision or error.
type fixedStore struct {
	decision headgate.Decision
	err      error
}

func (s fixedStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	return fixedBound{store: s, limit: rule.Limit.Capacity()}, nil
}

func (s fixedStore) Close() error { return nil }

func (s fixedStore) ApplyAll(_ context.Context, _ headgate.Instant, ops []headgate.Op, _ bool, decisions []headgate.Decision) error {
	for i := range ops {
		decisions[i] = s.decision
	}
	return s.err
}

// fixedBound embeds a nil Bound: a method that is not defined here panics.
type fixedBound struct {
	headgate.Bound
	store fixedStore
	limit int64
}

func (b fixedBound) Limit() int64 { return b.limit }

func (b fixedBound) Apply(context.Context, headgate.Instant, string, headgate.Verb, int64) (headgate.Decision, error) {
	return b.store.decision, b.store.err
}

// [end store]

// [snippet use]
func TestResponses(t *testing.T) {
	for name, c := range map[string]struct {
		store      fixedStore
		status     int
		retryAfter string
	}{
		"allowed":           {fixedStore{decision: headgate.Decision{Allowed: true, Limit: 3}}, 200, ""},
		"denied":            {fixedStore{decision: headgate.Decision{Limit: 3, RetryAfter: time.Minute, DeniedBy: []string{"api"}}}, 429, "60"},
		"store unavailable": {fixedStore{err: &headgate.StoreError{Store: "redis", Reason: headgate.ReasonTimedOut}}, 503, "1"},
	} {
		handler, err := New(c.store)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if got := w.Header().Get("Retry-After"); w.Code != c.status || got != c.retryAfter {
			t.Errorf("%s: got %d, Retry-After %q, want %d, %q", name, w.Code, got, c.status, c.retryAfter)
		}
	}
}

// [end use]

package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// [snippet clock]
// clockStore is a store whose clock is the function now.
type clockStore struct {
	headgate.Store
	now func() time.Time
}

func (s clockStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return clockBound{b, s.now}, err
}

func (s clockStore) ApplyAll(ctx context.Context, _ headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	inner := make([]headgate.Op, len(ops))
	for i, op := range ops {
		inner[i] = headgate.Op{Bound: op.Bound.(clockBound).Bound, Key: op.Key, Cost: op.Cost}
	}
	return s.Store.ApplyAll(ctx, headgate.InstantOf(s.now()), inner, peek, decisions)
}

type clockBound struct {
	headgate.Bound
	now func() time.Time
}

func (b clockBound) Apply(ctx context.Context, _ headgate.Instant, key string, verb headgate.Verb, cost int64) (headgate.Decision, error) {
	return b.Bound.Apply(ctx, headgate.InstantOf(b.now()), key, verb, cost)
}

// [end clock]

// [snippet server]
func TestServerWithClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	handler, err := New(clockStore{memstore.New(nil), func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	for i, want := range []int{200, 200, 200, 429, 200} {
		if i == 4 {
			now = now.Add(20 * time.Minute) // no request is in flight
		}
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("request %d: got %d, want %d", i+1, resp.StatusCode, want)
		}
	}
}

// [end server]

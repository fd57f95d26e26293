package admissiontest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
)

// Settler describes a package that charges a request before its handler runs, and can
// refund it after that.
type Settler struct {
	// New returns a function that sends one request from the client at [Address] under
	// one bucket. One unit is charged. If the request is allowed, the handler runs;
	// after that the unit is refunded if refund is true. The function reports whether
	// the handler ran.
	New func(t *testing.T, store headgate.Store, limit headgate.Limit, mode headgate.OnStoreError) Send
}

// Send sends one request.
type Send func(handler func(), refund bool) (admitted bool)

// keep sends n requests that are not refunded, and returns how many were allowed.
func (send Send) keep(n int) (admitted int) {
	for range n {
		if send(func() {}, false) {
			admitted++
		}
	}
	return admitted
}

// RunSettle checks that no unit is granted twice because of a refund after the handler.
func RunSettle(t *testing.T, s Settler) {
	t.Helper()
	for _, tt := range []struct {
		name   string
		mode   headgate.OnStoreError
		before bool          // true if the store is unavailable when the request is charged
		after  bool          // true if the store is unavailable when the request is refunded
		takes  time.Duration // time that the handler takes
		want   int           // allowed of five later requests; bucket of 4, handler spends 2
	}{
		{name: "refunded", want: 2},
		{name: "the bucket has refilled", takes: 8 * time.Second, want: 2},
		{name: "partly refilled", takes: time.Second, want: 2},
		{name: "fail local, unavailable", mode: headgate.FailLocal, before: true, after: true, want: 2},
		{name: "fail local, unavailable only after", mode: headgate.FailLocal, after: true, want: 2},
		{name: "fail local, recovered", mode: headgate.FailLocal, before: true, want: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &outage{Store: memstore.New(nil)}
				store, err := fallback.New(inner, &fallback.Options{Local: memstore.New(nil), Instances: 1})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = store.Close() }()
				send := s.New(t, store, headgate.MustParseLimit("4/8s"), tt.mode)
				inner.down.Store(tt.before)
				admitted := send(func() {
					time.Sleep(tt.takes)
					inner.down.Store(tt.after)
					if got := send.keep(2); got != 2 {
						t.Errorf("while the handler runs: got %d of 2 admitted", got)
					}
				}, true)
				if got := send.keep(5); !admitted || got != tt.want {
					t.Errorf("after the refund: got %d of 5 admitted want %d", got, tt.want)
				}
			})
		})
	}
}

package httplimit_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
)

// A charge that the failure mode open has allowed is in no store. The event of its commit
// has the units above the charge, which no limit has counted.
func TestAdjustCostReportsUncounted(t *testing.T) {
	t.Parallel()
	redis, store := killableStore(t, 1)
	redis.Kill()
	p := policy("open", "10/1h")
	p.OnStoreError = headgate.FailOpen
	events := make(decisions, 2) // taken, committed
	serve(newMiddlewareOn(t, store, &httplimit.Options{Observer: events}, httplimit.Charge{
		Policy: p, Cost: costs(2), AdjustCost: func(httplimit.Response) int64 { return 5 },
	})(ok), request("203.0.113.9:1"))
	<-events
	if e := <-events; e.Verb != "commit" || e.Uncounted != 3 || e.Decision.Degraded == headgate.ReasonNone || e.Err != nil {
		t.Errorf("got %+v want a degraded commit with 3 units not counted", e)
	}
}

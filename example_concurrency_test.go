package headgate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// A tenant may start 60 reports a minute and have 2 of them running. The hold takes one
// unit of the rate and one slot, or nothing.
func Example_concurrency() {
	ctx := context.Background()
	reports, err := headgate.New(memstore.New(nil), headgate.MustNamedPolicy("reports", "60/1m", "2 concurrent"), nil)
	if err != nil {
		panic(err)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	// [snippet concurrency]
	first, _ := reports.HoldAt(ctx, noon, "acme", 1, 30*time.Second)
	_, _ = reports.HoldAt(ctx, noon.Add(time.Second), "acme", 1, 30*time.Second)
	third, _ := reports.HoldAt(ctx, noon.Add(2*time.Second), "acme", 1, 30*time.Second)
	d := third.Decision()
	fmt.Println("third:", third.OK(), "retry after", d.RetryAfter, "denied by", d.DeniedBy)

	// The first report is done. Its slot is available again; the rate stays spent.
	_, _ = first.CommitAt(ctx, noon.Add(3*time.Second), 1)
	fourth, _ := reports.HoldAt(ctx, noon.Add(3*time.Second), "acme", 1, 30*time.Second)
	fmt.Println("fourth:", fourth.OK())
	// [end concurrency]
	// Output:
	// third: false retry after 28s denied by [reports:2 concurrent]
	// fourth: true
}

// A worker holds a slot for as long as a job runs. The KeepAlive extends the holds of all
// jobs of the process in one call.
func ExampleKeepAlive() {
	ctx := context.Background()
	jobs, err := headgate.New(memstore.New(nil), headgate.MustNamedPolicy("jobs", "16 concurrent"), nil)
	if err != nil {
		panic(err)
	}

	// [snippet keepalive]
	alive, err := headgate.NewKeepAlive(&headgate.KeepAliveOptions{TTL: 30 * time.Second})
	if err != nil {
		panic(err)
	}
	defer alive.Close()

	h, err := jobs.Hold(ctx, "exports", 1, alive.TTL())
	if err != nil || !h.OK() {
		return // try again after h.Decision().RetryAfter
	}
	alive.Add(h)
	defer func() {
		alive.Remove(h)
		_, _ = h.Cancel(context.WithoutCancel(ctx)) // also if ctx has ended
	}()
	fmt.Println("the job runs")
	// [end keepalive]
	// Output: the job runs
}

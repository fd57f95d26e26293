package headgate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// The cost of a request to a language model is known only afterwards. The hold charges an
// estimate, and the commit corrects it.
func ExampleLimiter_Hold() {
	ctx := context.Background()
	tokens, err := headgate.New(memstore.New(nil), headgate.MustPolicy("1/s burst 10"), nil)
	if err != nil {
		panic(err)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	// [snippet hold]
	h, _ := tokens.HoldAt(ctx, noon, "ann", 10, time.Minute) // the estimate
	d, _ := tokens.AllowAt(ctx, noon.Add(8*time.Second), "ann", 5)
	fmt.Println("remaining before the commit:", d.Remaining)

	// The real cost was 1. Without the other 9 units, the bucket would have been full
	// again after one second, so 5 units of it remain. A refund of 9 would leave 10.
	result, _ := h.CommitAt(ctx, noon.Add(8*time.Second), 1)
	fmt.Println("remaining after the commit:", result.Remaining)
	// [end hold]
	// Output:
	// remaining before the commit: 3
	// remaining after the commit: 5
}

// All checks are held, or none. Here a request needs one place in a limit of requests and
// an estimated number of tokens.
func ExampleHoldAll() {
	ctx := context.Background()
	store := memstore.New(nil)
	requests, _ := headgate.New(store, headgate.MustNamedPolicy("requests", "60/1m"), nil)
	tokens, _ := headgate.New(store, headgate.MustNamedPolicy("tokens", "100000/1m"), nil)

	// [snippet all]
	h, err := headgate.HoldAll(ctx, &headgate.HoldOptions{ID: "request 4711", TTL: 10 * time.Minute},
		headgate.Check{Limiter: requests, Key: "ann", Cost: 1},
		headgate.Check{Limiter: tokens, Key: "ann", Cost: 4000})
	if err != nil {
		panic(err)
	}
	if !h.OK() {
		fmt.Println("denied by", h.Decision().DeniedBy)
		return
	}
	// [end all]
	defer func() { _, _ = h.Cancel(ctx) }() // has no effect after Commit

	used := int64(1234) // the answer of the model reports it
	if _, err := h.Commit(ctx, 1, used); err != nil {
		panic(err)
	}
	d, _ := tokens.Peek(ctx, "ann")
	fmt.Println("tokens spent, about:", (d.Limit-d.Remaining)/100*100)
	// Output: tokens spent, about: 1200
}

// An import reads as many rows as both limits permit, and is charged for the bytes that
// the rows turned out to have.
func ExampleTakeUpToAll() {
	ctx := context.Background()
	store := memstore.New(nil)
	tenant, _ := headgate.New(store, headgate.MustNamedPolicy("rows of a tenant", "500/day"), nil)
	all, _ := headgate.New(store, headgate.MustNamedPolicy("rows of all", "10000/day"), nil)
	volume, _ := headgate.New(store, headgate.MustNamedPolicy("bytes of a tenant", "1000000/day"), nil)

	// [snippet uptoall]
	rows, _, err := headgate.TakeUpToAll(ctx,
		headgate.Check{Limiter: tenant, Key: "acme", Cost: 800},
		headgate.Check{Limiter: all, Key: "", Cost: 800})
	if err != nil {
		panic(err)
	}
	fmt.Println("rows to read:", rows)

	d, err := headgate.DebitAll(ctx, headgate.Check{Limiter: volume, Key: "acme", Cost: 1500 * rows})
	// [end uptoall]
	if err != nil {
		panic(err)
	}
	fmt.Println("bytes left:", d.Remaining)
	// Output:
	// rows to read: 500
	// bytes left: 250000
}

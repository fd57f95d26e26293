package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

func Example() {
	limiter, err := headgate.New(memstore.New(nil), headgate.MustPolicy("3/1m"), nil)
	if err != nil {
		panic(err)
	}
	for range 4 {
		d, err := limiter.Allow(context.Background(), "203.0.113.9")
		if err != nil {
			panic(err) // nothing could be decided; a denial is not an error
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Second))
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 20s
}

func ExampleParseLimit() {
	for _, text := range []string{"10/s", "1000/24h", "5/15m burst 20", "10 per minute", "ten/s"} {
		limit, err := headgate.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit, "has capacity", limit.Capacity())
	}
	// Output:
	// 10/s has capacity 10
	// 1000/d has capacity 1000
	// 5/15m burst 20 has capacity 20
	// 10/m has capacity 10
	// headgate: invalid limit "ten/s": column 1: expected the number of units, as in 10/s
	// 	ten/s
	// 	^^^
}

func ExampleAllowAll() {
	store := memstore.New(nil)
	address, _ := headgate.New(store, headgate.Policy{Name: "address", Limits: []headgate.Limit{{Rate: 20, Period: time.Minute}}}, nil)
	account, _ := headgate.New(store, headgate.Policy{Name: "account", Limits: []headgate.Limit{{Rate: 1, Period: time.Minute}}}, nil)
	for range 2 {
		d, err := headgate.AllowAll(context.Background(),
			headgate.Check{Limiter: address, Key: "203.0.113.9", Cost: 1},
			headgate.Check{Limiter: account, Key: "ann", Cost: 1})
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.DeniedBy)
	}
	d, _ := address.PeekN(context.Background(), "203.0.113.9", 0)
	fmt.Println("of the address's 20 are left", d.Remaining)
	// Output:
	// true []
	// false [account]
	// of the address's 20 are left 19
}

func ExampleLimiter_Reserve() {
	limiter, err := headgate.New(memstore.New(nil), headgate.MustPolicy("1/1s"), nil)
	if err != nil {
		panic(err)
	}
	noon := headgate.InstantOf(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for range 3 {
		r, err := limiter.ReserveAt(context.Background(), noon.Time(), "mail", 1, 1500*time.Millisecond)
		if err != nil {
			panic(err)
		}
		fmt.Println(r.OK(), r.Delay())
	}
	// Output:
	// true 0s
	// true 1s
	// false 0s
}

func ExampleLimiter_Wait() {
	limiter, err := headgate.New(memstore.New(nil), headgate.MustPolicy("1000/1s burst 1"), nil)
	if err != nil {
		panic(err)
	}
	for range 3 {
		if err := limiter.Wait(context.Background(), "disk"); err != nil {
			panic(err)
		}
		fmt.Println("one more millisecond's worth")
	}
	soon, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fmt.Println(errors.Is(limiter.WaitN(soon, "disk", 2), headgate.ErrNeverAllowed))
	// Output:
	// one more millisecond's worth
	// one more millisecond's worth
	// one more millisecond's worth
	// true
}

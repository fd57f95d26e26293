package headgate_test

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// A key has the limits of its plan, which may change from one request to the next.
func ExampleLimiter_WithLimits() {
	ctx := context.Background()
	policy := headgate.MustNamedPolicy("api", "20/24h")
	policy.Algorithm = headgate.FixedWindow
	limiter, err := headgate.New(memstore.New(nil), policy, nil)
	if err != nil {
		panic(err)
	}
	limitsOf := func(string) []headgate.Limit { return headgate.MustPolicy("50/24h").Limits }

	// [snippet limits]
	plan, err := limiter.WithLimits(limitsOf("ann")...)
	if err != nil {
		panic(err)
	}
	d, err := plan.AllowN(ctx, "ann", 30)
	// [end limits]
	fmt.Println(d.Allowed, d.Remaining, "of", d.Limit, err)

	// The same key without the plan: 30 units are spent.
	d, err = limiter.Allow(ctx, "ann")
	fmt.Println(d.Allowed, d.Remaining, "of", d.Limit, err)
	// Output:
	// true 20 of 50 <nil>
	// false 0 of 20 <nil>
}

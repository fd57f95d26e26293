package lease_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

// The store is wrapped twice: package fallback decides while it is unavailable, and
// package lease decides in memory for the keys with many requests.
func Example() {
	// [snippet wrap]
	shared := memstore.New(nil) // a program uses redisstore.Open here
	reliable, err := fallback.New(shared, nil)
	if err != nil {
		log.Fatal(err)
	}
	store, err := lease.New(reliable, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	limiter, err := headgate.New(store, headgate.Policy{
		Name:   "api",
		Limits: []headgate.Limit{headgate.MustParseLimit("1000/1h")},
		Lease:  headgate.LeaseSettings{Share: 10, TTL: 250 * time.Millisecond},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	// [end wrap]
	allowed := 0
	for range 3000 {
		if d, err := limiter.Allow(context.Background(), "ann"); err == nil && d.Allowed {
			allowed++
		}
	}
	fmt.Println("more than 1000 of 3000 requests were allowed:", allowed > 1000)
	// Output: more than 1000 of 3000 requests were allowed: false
}

// Holds of slots are opened and ended in memory, in a program that opens many of them.
func Example_slots() {
	store, err := lease.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	// [snippet slots]
	policy := headgate.MustNamedPolicy("reports", "200 concurrent")
	policy.Lease = headgate.LeaseSettings{Share: 50}
	reports, err := headgate.New(store, policy, nil)
	if err != nil {
		log.Fatal(err)
	}
	// [end slots]
	opened := 0
	for range 3000 {
		hold, err := reports.Hold(context.Background(), "acme", 1, 30*time.Second)
		if err != nil || !hold.OK() {
			continue
		}
		opened++
		_, _ = hold.Cancel(context.Background())
	}
	fmt.Println(opened, "holds were opened, most of them in memory")
	// Output: 3000 holds were opened, most of them in memory
}

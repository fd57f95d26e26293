// Package budget has budgets that follow the calendar of a time zone.
package budget

import (
	"context"
	"fmt"
	"log"
	"time"
	_ "time/tzdata" // time zones on machines without a zone database

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

func Example() {
	// [snippet policy]
	policy := headgate.MustNamedPolicy("tokens",
		"60000/1m",                    // a token bucket: no more than this in a short time
		"5000000/month in Asia/Tokyo", // the plan: renewed at midnight in Tokyo on the 1st
	)
	budgets, err := headgate.New(memstore.New(nil), policy, nil)
	if err != nil {
		log.Fatal(err)
	}
	// [end policy]

	// [snippet use]
	use := func(now time.Time, account string, tokens int64) {
		d, err := budgets.AllowAt(context.Background(), now, account, tokens)
		switch {
		case err != nil:
			log.Fatal(err)
		case d.Allowed:
			fmt.Println("allowed,", d.Remaining, "left")
		default:
			fmt.Println("denied by", d.DeniedBy[0], "until", now.Add(d.RetryAfter).Format(time.RFC3339))
		}
	}
	// [end use]

	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		log.Fatal(err)
	}
	start := time.Date(2026, 2, 1, 0, 0, 0, 0, tokyo)
	for n := range 83 { // 4,980,000 tokens in 83 minutes
		if _, err := budgets.AllowAt(context.Background(), start.Add(time.Duration(n)*time.Minute), "account:7", 60_000); err != nil {
			log.Fatal(err)
		}
	}
	later := start.Add(2 * time.Hour)
	use(later, "account:7", 20_001)
	use(later, "account:7", 20_000)
	use(later, "account:7", 1)
	use(time.Date(2026, 3, 1, 0, 0, 0, 0, tokyo), "account:7", 10_000)
	// Output:
	// denied by tokens:5000000/month in Asia/Tokyo until 2026-03-01T00:00:00+09:00
	// allowed, 0 left
	// denied by tokens:5000000/month in Asia/Tokyo until 2026-03-01T00:00:00+09:00
	// allowed, 50000 left
}

// Money is counted in millionths of a dollar, so that no price is rounded.
func Example_money() {
	// [snippet money]
	policy := headgate.MustNamedPolicy("spending", "250000000/day in America/New_York") // 250 dollars a day
	spending, err := headgate.New(memstore.New(nil), policy, nil)
	if err != nil {
		log.Fatal(err)
	}
	const price = 2_750 // $0.00275 for a request
	d, err := spending.AllowN(context.Background(), "account:7", price)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Allowed, d.Remaining)
	// [end money]
	// Output: true 249997250
}

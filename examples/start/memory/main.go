// Memory limits a function to five calls in 15 minutes for each key.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

func main() {
	limiter, err := headgate.New(memstore.New(nil), headgate.MustPolicy("5/15m"), nil)
	if err != nil {
		log.Fatal(err)
	}
	for range 6 {
		d, err := limiter.Allow(context.Background(), "user:42")
		switch {
		case err != nil:
			log.Fatal(err) // no decision; a denial is not an error
		case d.Allowed:
			fmt.Println("allowed, remaining:", d.Remaining)
		default:
			fmt.Println("denied, retry after:", d.RetryAfter.Round(time.Minute))
		}
	}
}

// Checkresp checks a limit of the service with go-redis, over the Redis-compatible
// endpoint.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

func newClient() *redis.Client {
	ms, _ := strconv.Atoi(cmp.Or(os.Getenv("RATE_LIMIT_TIMEOUT_MS"), "200"))
	timeout := time.Duration(ms) * time.Millisecond
	// [snippet connect]
	// The client has a pool. A check that failed is not sent again: it may have been
	// counted.
	return redis.NewClient(&redis.Options{
		Addr:        cmp.Or(os.Getenv("RATE_LIMIT_RESP"), "127.0.0.1:6380"),
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		MaxRetries: -1, DialerRetries: 1,
	})
	// [end connect]
}

// [snippet check]
// decision is a part of the reply of HG.CHECK.
type decision struct {
	Allowed      bool
	Remaining    int64
	RetryAfterMS int64
}

func check(ctx context.Context, client *redis.Client, policy, key string) (d decision, err error) {
	reply, err := client.Do(ctx, "HG.CHECK", policy, key).Result()
	if err != nil {
		return d, err
	}
	fields := reply.(map[any]any) // go-redis uses RESP3
	d.Allowed = fields["allowed"].(bool)
	d.Remaining = fields["remaining"].(int64)
	d.RetryAfterMS = fields["retry_after_ms"].(int64)
	return d, nil
}

// [end check]

func main() {
	client := newClient()
	for range 4 {
		d, err := check(context.Background(), client, "api", "go-redis:user:42")
		switch {
		case err != nil:
			log.Print("headgate: ", err)
			fmt.Println("not decided: allowed") // fail open; for a login deny here (fail closed)
		case d.Allowed:
			fmt.Printf("allowed, %d left\n", d.Remaining)
		default:
			fmt.Printf("denied, Retry-After: %d\n", (d.RetryAfterMS+999)/1000)
		}
	}
}

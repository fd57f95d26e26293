package redisstore_test

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// One limit for all processes that use this Redis. The first call connects.
func ExampleOpen() {
	store, err := redisstore.Open("redis://127.0.0.1:6379/0?namespace=shop", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limiter, err := headgate.New(store, headgate.MustPolicy("10/s burst 20"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = func(ctx context.Context) bool {
		d, err := limiter.Allow(ctx, "user:42")
		return err == nil && d.Allowed
	}
	fmt.Println(limiter.Policy().Limits[0])
	// Output: 10/s burst 20
}

// An invalid URL is reported immediately, with the part that is wrong.
func ExampleOpen_invalidURL() {
	_, err := redisstore.Open("redis://127.0.0.1:6379/x", nil)
	fmt.Println(err)
	// Output: redisstore: invalid URL: database: must be a whole number from 0 to 1048576
}

// A program with an existing rueidis client passes it to the store. Closing the store
// does not close it.
func ExampleRueidis() {
	use := func(client rueidis.Client) (*redisstore.Store, error) {
		return redisstore.New(redisstore.Rueidis(client), &redisstore.Options{Namespace: "shop"})
	}
	_ = use
}

// While Redis is unavailable, each of four processes decides locally on a quarter of
// the limit.
func Example_fallback() {
	redis, err := redisstore.Open("redis://127.0.0.1:6379", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := fallback.New(redis, &fallback.Options{Local: memstore.New(nil), Instances: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	_, err = headgate.New(store, headgate.Policy{
		Name: "api", Limits: []headgate.Limit{headgate.MustParseLimit("100/s")}, OnStoreError: headgate.FailLocal,
	}, nil)
	fmt.Println(err)
	// Output: <nil>
}

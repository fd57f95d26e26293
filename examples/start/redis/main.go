// Redis shares a limit between all processes. While Redis is unavailable, each process
// decides locally on its share of the limit.
package main

import (
	"cmp"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

func main() {
	store, err := openStore(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	handler, err := newHandler(store)
	if err != nil {
		log.Print(err)
		return
	}
	log.Print(http.ListenAndServe("127.0.0.1:8000", handler))
}

// [snippet redis]
func openStore(url string) (headgate.Store, error) {
	redis, err := redisstore.Open(url, &redisstore.Options{Namespace: "shop"})
	if err != nil {
		return nil, err
	}
	// Two processes run this program, so each applies half of a limit locally.
	return fallback.New(redis, &fallback.Options{Local: memstore.New(nil), Instances: 2})
}

func newHandler(store headgate.Store) (http.Handler, error) {
	policy := headgate.MustNamedPolicy("api", "20/1m burst 4")
	policy.OnStoreError = headgate.FailLocal
	limit, err := httplimit.New(store, nil, httplimit.Charge{Policy: policy})
	if err != nil {
		return nil, err
	}
	return limit(http.HandlerFunc(hello)), nil
}

// [end redis]

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

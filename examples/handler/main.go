// Handler is the smallest HTTP example: it allows each client address ten requests a
// minute, with bursts of three.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

func main() {
	log.Fatal(http.ListenAndServe("127.0.0.1:8000", newHandler()))
}

func newHandler() http.Handler {
	// [snippet limit]
	limit, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{
		Policy: headgate.MustPolicy("10/1m burst 3"),
	})
	if err != nil {
		log.Fatal(err)
	}
	return limit(http.HandlerFunc(hello))
	// [end limit]
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

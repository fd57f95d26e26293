// Package api is an HTTP API with a limit. Its tests show how to test such code without
// sleeping.
package api

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
)

// [snippet api]

// New returns the API. The store is a parameter, so that each test can choose one.
func New(store headgate.Store) (http.Handler, error) {
	limit, err := httplimit.New(store, nil, httplimit.Charge{
		Policy: headgate.MustNamedPolicy("api", "3/1h"),
	})
	if err != nil {
		return nil, err
	}
	return limit(http.HandlerFunc(hello)), nil
}

// [end api]

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

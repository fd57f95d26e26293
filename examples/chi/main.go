// Chi limits the requests of each client address to each route. The middleware of
// httplimit works with chi without an adapter. If it is added with With, it runs after
// routing and knows the pattern of the route, so that /items/1 and /items/2 share one
// budget. If it is added with Use, it runs before routing: do not use httplimit.Pattern
// there.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

func newHandler() (http.Handler, error) {
	perRoute, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{
		Policy: headgate.MustPolicy("10/1m burst 3"),
		Key:    httplimit.Join(httplimit.Pattern(), httplimit.Address()),
	})
	if err != nil {
		return nil, err
	}
	router := chi.NewRouter()
	// this route is not limited
	router.Get("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "fine") })
	limited := router.With(perRoute)
	limited.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "item", chi.URLParam(r, "id")) })
	limited.Get("/users/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "user", chi.URLParam(r, "id")) })
	return router, nil
}

func main() {
	handler, err := newHandler()
	if err != nil {
		log.Fatal(err)
	}
	log.Print("listening on http://localhost:8080")
	log.Fatal(http.ListenAndServe("localhost:8080", handler))
}

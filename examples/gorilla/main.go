// Gorilla limits the requests of each client address to each route. The middleware of
// httplimit works with gorilla/mux without an adapter. gorilla/mux does not set
// http.Request.Pattern, so the key uses a function that returns the path template of
// the route.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// template returns the path with which the route of r was registered, so that /items/1
// and /items/2 share one budget.
func template(r *http.Request) (string, bool) {
	text, err := mux.CurrentRoute(r).GetPathTemplate()
	return text, err == nil
}

func newHandler() (http.Handler, error) {
	perRoute, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{
		Policy: headgate.MustPolicy("10/1m burst 3"),
		Key:    httplimit.Join(httplimit.Func(template), httplimit.Address()),
	})
	if err != nil {
		return nil, err
	}
	router := mux.NewRouter()
	// this route is not limited
	router.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "fine") })
	limited := router.NewRoute().Subrouter()
	limited.Use(perRoute)
	limited.HandleFunc("/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "item", mux.Vars(r)["id"])
	})
	limited.HandleFunc("/users/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "user", mux.Vars(r)["id"])
	})
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

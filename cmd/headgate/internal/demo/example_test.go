package demo_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
	"github.com/headgate/headgate/memstore"
)

// This example mounts the page under a path of the program's own server, with its own
// store.
func ExampleNew() {
	store := memstore.New(nil)
	defer store.Close()
	page, err := demo.New(store, &demo.Options{
		OwnStore: func() headgate.Store { return memstore.New(&memstore.Options{MaxEntries: 1000}) },
	})
	if err != nil {
		panic(err)
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/limits/", http.StripPrefix("/limits", page))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/limits/", http.NoBody))
	fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}

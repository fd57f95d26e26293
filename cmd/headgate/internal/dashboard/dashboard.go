// Package dashboard is the page of the admin listener for operators. It shows the traffic
// and the denials of each policy, the store, the configuration and the audit, and it
// inspects and changes single keys.
//
// The package serves only static files, which contain no data and therefore need no
// token. All data comes from the admin API, which the page calls from the browser with
// the token that the user enters. The page keeps the token in the tab and sends it in
// the field Authorization. There are no cookies, so pages of other sites cannot use it.
package dashboard

import (
	"embed"
	"net/http"

	g "maragu.dev/gomponents"

	"github.com/headgate/headgate/cmd/headgate/internal/webpage"
)

// web contains the files that a browser loads. They are served as they are, without a
// build step.
//
//go:embed web
var web embed.FS

// New returns a handler for the page. All its paths are relative, and it calls the admin
// API at ../admin/v1/, so it is mounted one level below the root, usually at /ui/ with
// [http.StripPrefix]. It may be used concurrently.
func New() http.Handler {
	mux := http.NewServeMux()
	page, err := webpage.Render(web, map[string]g.Node{"modules": webpage.Modules(web)})
	if err == nil {
		mux.Handle("GET /{$}", page)
		err = webpage.Add(mux, web)
	}
	if err != nil {
		panic(err) // unreachable: the files are embedded, and the tests load all of them
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		webpage.Harden(w.Header())
		mux.ServeHTTP(w, r)
	})
}

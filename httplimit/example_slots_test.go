package httplimit_test

import (
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// Each user may start 60 reports a minute and have 2 of them running. The slot is held
// until the handler ends.
func Example_concurrency() {
	reports := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

	// [snippet slots]
	limit, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{
		Policy: headgate.MustNamedPolicy("reports", "60/1m", "2 concurrent"),
		Key:    httplimit.Header("X-User"),
	})
	if err != nil {
		panic(err)
	}
	http.Handle("/reports", limit(reports))
	// [end slots]
}

package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/middleware"
)

// Every row limits by address and allows the requests of the measurement.
func TestRowsAllowMeasuredRequests(t *testing.T) {
	t.Parallel()
	for _, row := range middleware.Rows() {
		for _, goroutines := range []int{1, 2} {
			s, err := middleware.Prepare(row, middleware.Case{Clients: 100, Goroutines: goroutines})
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Round(time.Millisecond)
			if err != nil || r.Denied > 0 || r.Bare.Nanos <= 0 {
				t.Errorf("%s: got %+v, %v want all requests allowed", row.Name, r, err)
			}
		}
	}
}

func TestRowsSendListedHeaderFields(t *testing.T) {
	t.Parallel()
	for _, row := range middleware.Rows() {
		limit, err := row.New(1)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != 200 || (len(w.Header()) == 0) != (row.Fields == "none") {
			t.Errorf("%s: got %d, %v want 200 and the fields %s", row.Name, w.Code, w.Header(), row.Fields)
		}
		t.Logf("%s: %v", row.Name, w.Header())
	}
}

func TestNamedRejectsUnknownRow(t *testing.T) {
	t.Parallel()
	if _, err := middleware.Named("missing"); err == nil {
		t.Error("got no error for an unknown row")
	}
}

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

func get(t *testing.T, url string) (int, http.Header) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode, answer.Header
}

func TestEachRouteHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	for _, c := range []struct {
		path string
		want int
	}{
		{"/items/1", 200},
		{"/items/2", 200},
		{"/items/3", 200},
		{"/items/4", 429}, // another item, the same route
		{"/items/1", 429},
		{"/users/1", 200}, // another route
		{"/health", 200},
		{"/nothing", 404},
	} {
		status, header := get(t, server.URL+c.path)
		if status != c.want {
			t.Errorf("%s: got %d, want %d", c.path, status, c.want)
		}
		if limited := c.want != 404 && c.path != "/health"; (header.Get("RateLimit") != "") != limited {
			t.Errorf("%s: RateLimit is %q", c.path, header.Get("RateLimit"))
		}
		if (header.Get("Retry-After") != "") != (c.want == 429) {
			t.Errorf("%s: Retry-After is %q", c.path, header.Get("Retry-After"))
		}
	}
}

func TestOnlyWrongPasswordsCount(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	for i, c := range []struct {
		password string
		want     int
	}{
		{"correct horse", 200},
		{"correct horse", 200},
		{"correct horse", 200},
		{"guess", 401},
		{"guess", 401},
		{"guess", 429},
	} {
		answer, err := http.PostForm(server.URL+"/login", url.Values{"password": {c.password}})
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("try %d, %s: got %d, want %d", i+1, c.password, answer.StatusCode, c.want)
		}
	}
}

func TestDeniedHandlerDoesNotRun(t *testing.T) {
	t.Parallel()
	deny := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	}
	engine := gin.New()
	engine.GET("/", adapt(deny), func(*gin.Context) { t.Error("the handler ran") })
	w := httptest.NewRecorder()
	engine.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("got %d, want %d", w.Code, http.StatusTooManyRequests)
	}
}

// Behind an adapter that is settled, too, a handler reaches the connection: for its deadlines, for events as they happen.
func TestHandlerReachesItsConnection(t *testing.T) {
	t.Parallel()
	failures, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{Policy: headgate.MustPolicy("2/15m"), Settle: httplimit.OnlyFailures})
	if err != nil {
		t.Fatal(err)
	}
	engine := gin.New()
	engine.GET("/", adapt(failures), func(c *gin.Context) {
		control := http.NewResponseController(c.Writer)
		if err := errors.Join(control.SetWriteDeadline(time.Now().Add(time.Minute)), control.Flush()); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(engine)
	defer server.Close()
	if status, _ := get(t, server.URL); status != http.StatusOK {
		t.Errorf("got %d, want %d", status, http.StatusOK)
	}
}

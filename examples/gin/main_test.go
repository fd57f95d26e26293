package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/examples/internal/expect"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

func TestRouteLimits(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	expect.RouteLimits(t, handler)
}

func TestFailedLoginLimit(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	expect.FailedLoginLimit(t, handler)
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

// A handler can set deadlines and flush, also if the middleware adjusts the cost.
func TestResponseControllerWorksThroughAdapter(t *testing.T) {
	t.Parallel()
	failures, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{Policy: headgate.MustPolicy("2/15m"), AdjustCost: httplimit.OnlyFailures})
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
	if status, _ := expect.Get(t, server.URL); status != http.StatusOK {
		t.Errorf("got %d, want %d", status, http.StatusOK)
	}
}

package api

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// [snippet handler]
func TestRetryAfterIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, err := New(memstore.New(nil))
		if err != nil {
			t.Fatal(err)
		}
		get := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w
		}
		for i, want := range []int{200, 200, 200, 429} {
			if got := get().Code; got != want {
				t.Errorf("request %d: got %d, want %d", i+1, got, want)
			}
		}
		if got := get().Header().Get("Retry-After"); got != "1200" {
			t.Errorf("Retry-After: got %q, want 1200", got)
		}
		time.Sleep(1200 * time.Second) // takes no time in the bubble
		if got := get().Code; got != 200 {
			t.Errorf("after 1200 s: got %d, want 200", got)
		}
	})
}

// [end handler]

// [snippet wait]
func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := headgate.New(memstore.New(nil), headgate.MustPolicy("1/10s"), nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 3 {
			if err := limiter.Wait(t.Context(), "mail"); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(began); got != 20*time.Second {
			t.Errorf("three mails: got %v, want 20s", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := limiter.Wait(ctx, "mail"); err == nil {
			t.Error("the next unit is available in 10 s: got no error, want one after at most 1 s")
		}
	})
}

// [end wait]

package bench

import (
	"context"
	"net/http"

	"github.com/go-chi/httprate"
)

// httpRate is github.com/go-chi/httprate with its local counter, which has two weighted
// counters for each key. Only its method OnLimit checks and charges in one call; it
// requires a request and a response. It gets an empty request and writes no header. No
// HTTP message is parsed or sent.
type httpRate struct {
	limiter *httprate.RateLimiter
	request *http.Request
	drain   *http.Request
}

func newHTTPRate(limit Limit, _ int) (Limiter, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody)
	if err != nil {
		return nil, err
	}
	return httpRate{
		limiter: httprate.NewRateLimiter(limit.Burst, limit.Window(), httprate.WithResponseHeaders(httprate.ResponseHeaders{})),
		request: request,
		drain:   request.WithContext(httprate.WithIncrement(request.Context(), limit.Burst)),
	}, nil
}

func (h httpRate) Allow(key string) bool { return !h.limiter.OnLimit(noResponse{}, h.request, key) }

func (h httpRate) Drain(key string) { h.limiter.OnLimit(noResponse{}, h.drain, key) }

// noResponse is an http.ResponseWriter that discards the response.
type noResponse struct{}

func (noResponse) Header() http.Header         { return http.Header{} }
func (noResponse) Write(p []byte) (int, error) { return len(p), nil }
func (noResponse) WriteHeader(int)             {}

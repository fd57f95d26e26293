package forwardauth_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
)

// Every description gets one of the documented responses, and a denial is always reported
// as one.
func FuzzDescriptions(f *testing.F) {
	f.Add("POST", "/login?x", "shop.test", "203.0.113.9, 10.0.0.1", "deny=403")
	f.Add("GET", "http://a.example.com:80", "", "", "")
	f.Add("G\x00T", "*", "[::1]:80", "unknown", "deny=&deny")
	f.Add("OPTIONS", "://", "a, b", "::ffff:1.2.3.4%z", "&&&")
	f.Add("get", "//%2f..;a\\%5C#%zz", "A.Example.com.", "[2001:db8::1]:443", "deny=503&")
	statuses := map[int]string{200: "allow", 429: "deny", 503: "deny", 403: "deny", 400: "error", 414: "error"}
	h, _ := newHandler(f, proxied)
	f.Fuzz(func(t *testing.T, method, uri, host, list, query string) {
		r := request(proxy, forwardauth.Path)
		r.URL.RawQuery = query
		r.Header = http.Header{
			"X-Forwarded-Method": {method}, "X-Forwarded-Uri": {uri}, "X-Forwarded-Host": {host}, "X-Forwarded-For": {list},
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header()["X-Ratelimit-Decision"]; !slices.Equal(got, []string{statuses[w.Code]}) {
			t.Errorf("got %d, decision %q", w.Code, got)
		}
	})
}

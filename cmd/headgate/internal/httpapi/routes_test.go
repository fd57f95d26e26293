package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
)

func TestMountedHandlers(t *testing.T) {
	t.Parallel()
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "other "+r.URL.Path)
	})
	s := serve(t, &httpapi.Options{Mounted: map[string]http.Handler{"/v1/other": other, "/v1/other/": other, "/exact": other}}, nil)
	for path, want := range map[string]string{
		"/exact": "other /exact", "/exact/": "the request has an unknown path; must be one of /v1/check", "/exact/x": "unknown path; must be one of /v1/check", "/v1/exact": "unknown path; must be one of /v1/check",
		"/v1/other": "other /v1/other", "/v1/other/": "other /v1/other/", "/v1/other/x/y?z": "other /v1/other/x/y",
		"/v1/others": "the request has an unknown path; must be one of /v1/check", "/v1": "/openapi.json, /exact, /v1/other", "/livez": "ok\n",
	} {
		if got := s.do("GET", path, ""); !strings.Contains(got.body, want) {
			t.Errorf("%s: got %d %q, want %q", path, got.status, got.body, want)
		}
	}
}

// A path is used as the client sent it. No path is redirected, because a redirected POST
// becomes a GET.
func TestPathsNotCleaned(t *testing.T) {
	t.Parallel()
	other := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, name+" "+r.URL.Path) })
	}
	s := serve(t, &httpapi.Options{Mounted: map[string]http.Handler{
		"/v1/other": other("exact"), "/v1/other/": other("subtree"), "/v1/other/deep/": other("deep"), "/v1/check/": other("below check"),
	}}, nil)
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"POST", "//v1/check", 404, "the request has an unknown path; must be one of /v1/check, /v1/peek"},
		{"POST", "/v1//check", 404, "the request has an unknown path; must be one of /v1/check, /v1/peek"},
		{"POST", "/v1/./check", 404, "the request has an unknown path; must be one of /v1/check, /v1/peek"},
		{"POST", "/v1/x/../check", 404, "the request has an unknown path; must be one of /v1/check, /v1/peek"},
		{"GET", "//livez", 404, "the request has an unknown path; must be one of /v1/check, /v1/peek"},
		{"GET", "/livez%2F", 404, "the request has an unknown path; must be one of /v1/check, /v1/peek"},
		{"GET", "/%6Civez", 200, "ok\n"},
		{"GET", "/v1%2Fother", 200, "exact /v1/other"},
		{"GET", "/v1/other//x", 200, "subtree /v1/other//x"},
		{"GET", "/v1/other/../check", 200, "subtree /v1/other/../check"},
		{"GET", "/v1/other/deep/x", 200, "deep /v1/other/deep/x"},
		{"GET", "/v1/other/deep", 200, "subtree /v1/other/deep"},
		{"GET", "/v1/check/x", 200, "below check /v1/check/x"},
		{"GET", "/v1/check", 405, "must be POST"},
		{"OPTIONS", "/v1/check", 405, "must be POST"},
		{"OPTIONS", "/livez", 405, "must be GET or HEAD"},
		{"POST", "/openapi.json", 405, "must be GET or HEAD"},
	} {
		if got := s.do(c.method, c.path, ""); got.status != c.status || !strings.Contains(got.body, c.body) {
			t.Errorf("%s %s: got %d %q, want %d %q", c.method, c.path, got.status, got.body, c.status, c.body)
		}
	}
}

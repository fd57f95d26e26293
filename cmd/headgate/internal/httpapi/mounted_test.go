package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
)

func TestMountedDoors(t *testing.T) {
	t.Parallel()
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "other "+r.URL.Path)
	})
	s := serve(t, &httpapi.Options{Mounted: map[string]http.Handler{"/v1/other": other, "/v1/other/": other, "/exact": other}}, nil)
	for path, want := range map[string]string{
		"/exact": "other /exact", "/exact/": "there are /v1/check", "/exact/x": "there are /v1/check", "/v1/exact": "there are /v1/check",
		"/v1/other": "other /v1/other", "/v1/other/": "other /v1/other/", "/v1/other/x/y?z": "other /v1/other/x/y",
		"/v1/others": "there are /v1/check", "/v1": "/openapi.json, /exact, /v1/other", "/livez": "ok\n",
	} {
		if got := s.do("GET", path, ""); !strings.Contains(got.body, want) {
			t.Errorf("%s: got %d %q, want %q", path, got.status, got.body, want)
		}
	}
}

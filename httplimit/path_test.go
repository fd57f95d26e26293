package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// spellings returns 32 spellings of the path /login by percent-encoding.
func spellings() (all []string) {
	for n := range 32 {
		path := "/"
		for i, c := range "login" {
			if n>>i&1 == 1 {
				path += "%" + strings.ToUpper(string("0123456789abcdef"[c>>4])) + string("0123456789abcdef"[c&15])
			} else {
				path += string(c)
			}
		}
		all = append(all, path)
	}
	return all
}

// All spellings of a path that a server may treat alike share one budget with Path, or
// the budget of all ambiguous paths. They have budgets of their own with RawPath.
func TestPathSpellingsShareBudget(t *testing.T) {
	t.Parallel()
	others := []string{
		"//login", "/./login", "/login/", "/x/../login", "/LOGIN", "/login;a=b", "/%2e/login", `/%5clogin`, "/login%20", "/login.", "/login%09",
		"/login%00", "/%20login", "/login..%20",
	}
	ambiguous := []string{"/x%2f..%2flogin"}
	for n := range 6 {
		for _, path := range []string{
			"/q%d%%2fb/../login", "/q%d%%5cb/../login", `/q%d\b/../login`, `/q%d%%2fb"/../login`, "/login;x=%%2f%d", "/login;x=%%5c%d", `/login;x\%d`,
			"/x%d#/../login", "/q%d%%2fb/../login#",
		} {
			ambiguous = append(ambiguous, fmt.Sprintf(path, n))
		}
	}
	for _, c := range []struct {
		name  string
		key   httplimit.Key
		paths []string
		want  int
	}{
		{"Path, encoded", httplimit.Path(), spellings(), 5},
		{"Path, other spellings", httplimit.Path(), append(others, "/login"), 5},
		{"Path, ambiguous", httplimit.Path(), ambiguous, 5},
		{"Path, escaped slashes", httplimit.Path(), []string{"/projects/a%2Fproject", "/projects/b%2Fproject"}, 10},
		{"RawPath, encoded", httplimit.RawPath(), spellings(), 160},
	} {
		policy := headgate.MustPolicy("5/24h")
		limit, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{Policy: policy, Key: httplimit.Join(c.key, httplimit.Address())})
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		server := httptest.NewServer(limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ })))
		t.Cleanup(server.Close)
		for range 5 {
			for _, path := range c.paths {
				r, err := http.NewRequest(http.MethodPost, server.URL, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.URL = &url.URL{Scheme: "http", Host: r.URL.Host, Opaque: path}
				if strings.HasPrefix(path, "//") {
					r.URL.Opaque = "http://" + r.URL.Host + path
				}
				resp, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
					t.Fatalf("%s: got %s", path, resp.Status)
				}
			}
		}
		if ran != c.want {
			t.Errorf("%s: the handler ran %d times for %d spellings, want %d", c.name, ran, len(c.paths), c.want)
		}
	}
}

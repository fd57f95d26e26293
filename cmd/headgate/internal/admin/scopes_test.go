package admin_test

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/admin"
)

// TestScopesOfEveryPath tests every cell of the table of scopes: each path of the
// listener with each kind of client.
func TestScopesOfEveryPath(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	clients := []struct {
		name, token string
		scopes      []access.Scope
	}{
		{"no token", "", nil},
		{"wrong token", "wrong-token-of-a-client", nil},
		{"read", "token-with-read", []access.Scope{access.Read}},
		{"write", "token-with-write", []access.Scope{access.Write}},
		{"both", "token-with-both", []access.Scope{access.Read, access.Write}},
	}
	var tokens []access.Token
	for _, c := range clients[2:] {
		tokens = append(tokens, access.Token{Name: c.name, Secret: c.token, Scopes: c.scopes})
	}
	a.gate.Use(tokens)
	paths := append(admin.Operations(), otherPaths...)
	cells := 0
	for _, o := range paths {
		for _, c := range clients {
			cells++
			want := 0 // neither 401 nor 403
			if o.Scope != access.None && c.scopes == nil {
				want = http.StatusUnauthorized
			} else if !access.Has(c.scopes, o.Scope) {
				want = http.StatusForbidden
			}
			resp, body := a.send(o.Method, o.Path, "{}", "Authorization", "Bearer "+c.token)
			denied := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
			if want == 0 && denied || want != 0 && resp.StatusCode != want {
				t.Errorf("%s %s with %s: got %d %s want %d", o.Method, o.Path, c.name, resp.StatusCode, body, want)
			}
			if challenge := resp.Header.Get("WWW-Authenticate"); (challenge != "") != (want != 0) {
				t.Errorf("%s %s with %s: got WWW-Authenticate %q", o.Method, o.Path, c.name, challenge)
			}
		}
	}
	t.Logf("%d cells", cells)
}

// otherPaths are the paths of the listener that are not part of the JSON API.
var otherPaths = []admin.Operation{
	{Method: "GET", Path: "/", Scope: access.Read},
	{Method: "GET", Path: "/debug/pprof/", Scope: access.Read},
	{Method: "GET", Path: "/debug/pprof/cmdline", Scope: access.Read},
	{Method: "GET", Path: "/debug/pprof/heap", Scope: access.Read},
	{Method: "POST", Path: "/debug/pprof/symbol", Scope: access.Read},
	{Method: "GET", Path: "/metrics", Scope: access.Read},
	{Method: "GET", Path: "/admin/v1/none", Scope: access.Read},
	{Method: "GET", Path: "/admin/v1/", Scope: access.Read},
	{Method: "GET", Path: "/none", Scope: access.Read},
}

// TestDocumentedScopes compares the table of the documentation with the handler.
func TestDocumentedScopes(t *testing.T) {
	t.Parallel()
	page := string(must(os.ReadFile("../../../../docs/reference/admin-api.md")))
	got := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(GET|POST) (/[^`]*)` \\| (none|read|write) \\|").FindAllStringSubmatch(page, -1) {
		got[row[1]+" "+row[2]] = row[3]
	}
	want := make(map[string]string)
	for _, o := range admin.Operations() {
		want[o.Method+" "+o.Path] = string(o.Scope)
		if o.Scope == access.None {
			want[o.Method+" "+o.Path] = "none"
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the page has the operations\n%q\nthe handler\n%q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestCookiesAreNoCredentials: a token in a cookie or in the query has no effect.
func TestCookiesAreNoCredentials(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.gate.Use([]access.Token{{Name: "t", Secret: "secret", Scopes: []access.Scope{access.Read}}})
	for _, field := range []string{"Cookie", "Proxy-Authorization", "X-Authorization"} {
		for _, value := range []string{"Bearer secret", "secret", "token=secret", "Authorization=Bearer secret"} {
			if resp, _ := a.send("GET", "/admin/v1/status?token=secret", "", field, value); resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %s: got %d want 401", field, value, resp.StatusCode)
			}
		}
	}
}

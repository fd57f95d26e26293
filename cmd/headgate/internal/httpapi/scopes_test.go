package httpapi_test

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
)

// scopeClients are the clients of the table of scopes: without a token, with a wrong one,
// and with a token of each scope.
var scopeClients = []struct {
	name, token string
	scopes      []access.Scope
}{
	{"no token", "", nil},
	{"wrong token", "wrong-token-of-a-client", nil},
	{"check", "token-with-check", []access.Scope{access.Check}},
	{"refund", "token-with-refund", []access.Scope{access.Refund}},
	{"reset", "token-with-reset", []access.Scope{access.Reset}},
	{"admin", "token-with-admin", []access.Scope{access.Admin}},
}

func scopeTokens() (tokens []access.Token) {
	for _, c := range scopeClients[2:] {
		tokens = append(tokens, access.Token{Name: c.name, Secret: c.token, Scopes: c.scopes})
	}
	return tokens
}

// TestScopesOfEveryPath tests every cell of the table of scopes: each path of the
// document with each client.
func TestScopesOfEveryPath(t *testing.T) {
	t.Parallel()
	d := newDescribed(t)
	d.gate.Use(scopeTokens())
	cells := 0
	for path, item := range d.doc.Paths.Map() {
		target := strings.Replace(path, "{policy}", "login", 1)
		for method := range item.Operations() {
			for _, c := range scopeClients {
				cells++
				want := 0 // neither 401 nor 403
				if needed := httpapi.ScopeOf(target); needed != access.None && c.scopes == nil {
					want = http.StatusUnauthorized
				} else if !access.Has(c.scopes, needed) {
					want = http.StatusForbidden
				}
				d.mustDeny(method, target, c.token, want)
			}
		}
	}
	if want := 18 * len(scopeClients); cells != want {
		t.Errorf("tested %d cells want %d", cells, want)
	}
}

// mustDeny sends a request with a token. It reports an error if the status is not want;
// 0 means that it must be neither 401 nor 403.
func (d *described) mustDeny(method, target, token string, want int) {
	d.t.Helper()
	r := must(http.NewRequestWithContext(d.t.Context(), method, d.url+target, strings.NewReader("{}")))
	for i := 0; i < len(aRequest); i += 2 {
		r.Header.Set(aRequest[i], aRequest[i+1])
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp := must(http.DefaultClient.Do(r))
	defer resp.Body.Close()
	body := string(must(io.ReadAll(resp.Body)))
	denied := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
	if want == 0 && denied || want != 0 && resp.StatusCode != want {
		d.t.Errorf("%s %s with %q: got %d want %d", method, target, token, resp.StatusCode, want)
	}
	if challenge := resp.Header.Get("WWW-Authenticate"); (want != 0) != (challenge != "") {
		d.t.Errorf("%s %s with %q: got WWW-Authenticate %q with %d", method, target, token, challenge, resp.StatusCode)
	}
	if want != 0 && resp.Header.Get("Content-Type") != "application/problem+json" {
		d.t.Errorf("%s %s with %q: got %s want a problem", method, target, token, resp.Header.Get("Content-Type"))
	}
	if token != "" && strings.Contains(body, token) {
		d.t.Errorf("%s %s: the response contains the token: %s", method, target, body)
	}
}

// TestOpenAPIHasScopes compares the scopes in the document with those of the handler.
func TestOpenAPIHasScopes(t *testing.T) {
	t.Parallel()
	d := newDescribed(t)
	for path, item := range d.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			var got []string
			if operation.Security != nil {
				for _, requirement := range *operation.Security {
					got = append(got, requirement["bearer"]...)
				}
			}
			var want []string
			if scope := httpapi.ScopeOf(strings.Replace(path, "{policy}", "login", 1)); scope != access.None {
				want = []string{string(scope)}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s %s: the document has the scopes %q, the handler %q", method, path, got, want)
			}
		}
	}
}

func TestUnknownPathsRequireAdmin(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v2/check", "/demos", "/v1/check/", ""} {
		if got := httpapi.ScopeOf(path); got != access.Admin {
			t.Errorf("%q: got %q want admin", path, got)
		}
	}
	if got := httpapi.ScopeOf("/demo/page.js"); got != access.None {
		t.Errorf("the demo page: got %q want none", got)
	}
}

// TestDocumentedScopes compares the table of the documentation with the handler.
func TestDocumentedScopes(t *testing.T) {
	t.Parallel()
	page := string(must(os.ReadFile("../../../../docs/operate/security.md")))
	rows := regexp.MustCompile("(?m)^\\| (`/[^|]*`) \\| (none|check|refund|reset) \\|").FindAllStringSubmatch(page, -1)
	documented := 0
	for _, row := range rows {
		for _, path := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			documented++
			want := string(httpapi.ScopeOf(path[1]))
			if want == "" {
				want = "none"
			}
			if row[2] != want {
				t.Errorf("%s: the page has the scope %s, the handler %s", path[1], row[2], want)
			}
		}
	}
	if documented < 18 {
		t.Errorf("the page lists %d paths want 18 or more", documented)
	}
}

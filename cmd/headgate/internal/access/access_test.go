package access_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
)

func authorize(g *access.Gate, needed access.Scope, fields ...string) (client access.Client, ok bool, answer *httptest.ResponseRecorder) {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Header["Authorization"] = fields
	r.AddCookie(&http.Cookie{Name: "Authorization", Value: "Bearer all"})
	answer = httptest.NewRecorder()
	client, ok = g.Authorize(answer, r, needed)
	return client, ok, answer
}

func TestHas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scopes []access.Scope
		needed access.Scope
		want   bool
	}{
		{nil, access.None, true},
		{nil, access.Read, false},
		{[]access.Scope{access.Read}, access.Read, true},
		{[]access.Scope{access.Write}, access.Read, false},
		{[]access.Scope{access.Read}, access.Write, false},
		{[]access.Scope{access.Admin}, access.Check, true},
		{[]access.Scope{access.Admin}, access.Refund, true},
		{[]access.Scope{access.Admin}, access.Reset, true},
		{[]access.Scope{access.Admin}, access.Read, false},
		{[]access.Scope{access.Admin}, access.Write, false},
		{[]access.Scope{access.Check, access.Refund}, access.Reset, false},
	} {
		if got := access.Has(c.scopes, c.needed); got != c.want {
			t.Errorf("%q for %q: got %v want %v", c.scopes, c.needed, got, c.want)
		}
	}
}

func TestWithoutTokensEveryClientIsLocal(t *testing.T) {
	t.Parallel()
	g := access.NewGate(access.Client{Name: "local", Scopes: []access.Scope{access.Read}})
	if client, ok, _ := authorize(g, access.Write); !ok || client.Name != "local" {
		t.Errorf("got %v, %v want the client local", client, ok)
	}
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	g := access.NewGate(access.Client{})
	g.Use([]access.Token{
		{Name: "reader", Secret: "reads", Scopes: []access.Scope{access.Read}},
		{Name: "operator", Secret: "all", Scopes: []access.Scope{access.Read, access.Write}},
	})
	for _, c := range []struct {
		fields    []string
		needed    access.Scope
		status    int
		client    string
		challenge string
	}{
		{nil, access.None, 200, "", ""},
		{nil, access.Read, 401, "", `Bearer realm="headgate"`},
		{[]string{""}, access.Read, 401, "", `Bearer realm="headgate"`},
		{[]string{"Bearer"}, access.Read, 401, "", `Bearer realm="headgate"`},
		{[]string{"Bearer "}, access.Read, 401, "", `Bearer realm="headgate"`},
		{[]string{"Basic all"}, access.Read, 401, "", `Bearer realm="headgate"`},
		{[]string{"Bearer all", "Bearer reads"}, access.Read, 401, "", `Bearer realm="headgate"`},
		{[]string{"Bearer al"}, access.Read, 401, "", `Bearer realm="headgate", error="invalid_token"`},
		{[]string{"Bearer all "}, access.Read, 401, "", `Bearer realm="headgate", error="invalid_token"`},
		{[]string{"Bearer reads"}, access.Read, 200, "reader", ""},
		{[]string{"bearer  all"}, access.Write, 200, "operator", ""},
		{[]string{"Bearer reads"}, access.Write, 403, "", `Bearer realm="headgate", error="insufficient_scope", scope="write"`},
	} {
		client, ok, answer := authorize(g, c.needed, c.fields...)
		if ok != (c.status == 200) || answer.Code != c.status || client.Name != c.client || answer.Header().Get("WWW-Authenticate") != c.challenge {
			t.Errorf("%q for %q: got %d, %+v, %q want %d, %q, %q",
				c.fields, c.needed, answer.Code, client, answer.Header().Get("WWW-Authenticate"), c.status, c.client, c.challenge)
		}
		if body := answer.Body.String(); strings.Contains(body, "reads") || strings.Contains(body, "all") {
			t.Errorf("%q for %q: the response contains a token: %s", c.fields, c.needed, body)
		}
	}
	g.Use([]access.Token{{Name: "next", Secret: "other", Scopes: []access.Scope{access.Read}}})
	if _, ok, _ := authorize(g, access.Read, "Bearer all"); ok {
		t.Error("a token that was replaced is still valid")
	}
	if client, ok, _ := authorize(g, access.Read, "Bearer other"); !ok || client.Name != "next" {
		t.Errorf("the new token: got %v, %v", client, ok)
	}
}

func TestRequire(t *testing.T) {
	t.Parallel()
	g := access.NewGate(access.Client{})
	g.Use([]access.Token{{Name: "c", Secret: "secret", Scopes: []access.Scope{access.Check}}})
	served := 0
	h := g.Require(access.Check, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	for _, field := range []string{"", "Bearer secret"} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header.Set("Authorization", field)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if served != 1 {
		t.Errorf("got %d requests want 1", served)
	}
}

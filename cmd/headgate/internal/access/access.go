// Package access decides what a client of an HTTP listener may do: a client sends a
// bearer token, and each token has scopes. Without tokens, every client may do
// everything, and the listener must be protected in another way.
//
// Tokens are compared in constant time, and are kept only as hashes. Neither a token nor
// a part of it is in a response, an error or a log line. Cookies are never credentials.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate/internal/problem"
)

// Scope is a permission of a token.
type Scope string

// The scopes. An operation requires exactly one of them, or [None].
const (
	None Scope = "" // no token is required

	// Of the admin API.
	Read  Scope = "read"  // state, configuration, metrics and profiles
	Write Scope = "write" // everything that changes the state of keys or overrides

	// Of the HTTP API and of the Redis-compatible endpoint.
	Check  Scope = "check"  // spend units, and peek; open, commit, extend and cancel holds
	Refund Scope = "refund" // return units that were spent
	Reset  Scope = "reset"  // make a key unused
	Admin  Scope = "admin"  // all of these three
)

// Has reports whether a client with these scopes may execute an operation that requires
// the scope needed.
func Has(scopes []Scope, needed Scope) bool {
	if needed == None || slices.Contains(scopes, needed) {
		return true
	}
	return needed != Read && needed != Write && slices.Contains(scopes, Admin)
}

// Token is a bearer token.
type Token struct {
	Name   string // name of its owner, for the audit
	Secret string // the token itself
	Scopes []Scope
}

// Client is who has sent a request.
type Client struct {
	Name   string // name of the token; empty without tokens
	Scopes []Scope
}

// Gate authenticates the clients of one listener. Its tokens can be replaced while it is
// used. It is created with [NewGate] and may be used concurrently.
type Gate struct {
	local   Client
	entries atomic.Pointer[[]entry]
}

// entry is one token, without its text.
type entry struct {
	sum [sha256.Size]byte
	Client
}

// NewGate returns a gate without tokens. Every client is then the client local.
func NewGate(local Client) *Gate {
	g := &Gate{local: local}
	g.Use(nil)
	return g
}

// Use replaces all tokens. Requests in flight are not affected.
func (g *Gate) Use(tokens []Token) {
	entries := make([]entry, len(tokens))
	for i, t := range tokens {
		entries[i] = entry{sha256.Sum256([]byte(t.Secret)), Client{t.Name, slices.Clone(t.Scopes)}}
	}
	g.entries.Store(&entries)
}

// HasTokens reports whether clients need a token.
func (g *Gate) HasTokens() bool { return len(*g.entries.Load()) > 0 }

// Authorize returns the client that has sent a request, if it may execute an operation
// that requires the scope needed. Otherwise it writes the response, a problem with status
// 401 or 403, and returns false.
func (g *Gate) Authorize(w http.ResponseWriter, r *http.Request, needed Scope) (Client, bool) {
	if needed == None || !g.HasTokens() {
		return g.local, true
	}
	secret, sent := bearer(r)
	client, known := g.find(secret)
	switch {
	case !sent:
		deny(w, http.StatusUnauthorized, `Bearer realm="headgate"`, "the request has no token; send the header field Authorization: Bearer TOKEN")
	case !known:
		deny(w, http.StatusUnauthorized, `Bearer realm="headgate", error="invalid_token"`, "the token is not valid")
	case !Has(client.Scopes, needed):
		challenge := fmt.Sprintf(`Bearer realm="headgate", error="insufficient_scope", scope=%q`, string(needed))
		deny(w, http.StatusForbidden, challenge, fmt.Sprintf("the token does not have the scope %s, which this operation requires", needed))
	default:
		return client, true
	}
	return Client{}, false
}

// find returns the client of a token. It compares the token with all entries, so that
// its duration does not depend on which of them is equal.
func (g *Gate) find(secret string) (client Client, known bool) {
	sum := sha256.Sum256([]byte(secret))
	found := -1
	entries := *g.entries.Load()
	for i := range entries {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], entries[i].sum[:]), i, found)
	}
	if found < 0 {
		return Client{}, false
	}
	return entries[found].Client, true
}

// bearer returns the token of a request. sent is false if the request has none, or if it
// has other or several credentials.
func bearer(r *http.Request) (token string, sent bool) {
	fields := r.Header["Authorization"]
	if len(fields) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(fields[0], " ")
	token = strings.TrimLeft(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

func deny(w http.ResponseWriter, status int, challenge, detail string) {
	w.Header().Set("WWW-Authenticate", challenge)
	problem.Write(w, problem.Problem{Type: problem.Plain, Status: status, Detail: detail})
}

// Require returns a handler that passes the requests to next whose clients have the scope
// needed. With [None], it returns next.
func (g *Gate) Require(needed Scope, next http.Handler) http.Handler {
	if needed == None {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := g.Authorize(w, r, needed); ok {
			next.ServeHTTP(w, r)
		}
	})
}

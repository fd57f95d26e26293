package httpapi

import (
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
)

// scopes has the scope that each path of the listener requires, also of the handlers of
// other APIs that are mounted. A path that ends with a slash includes all paths below it.
// Tests compare it with the OpenAPI document and with the documentation, and test each
// path with each scope.
//
// A proxy passes the Authorization field of its own client to forward-auth, so that API
// has no tokens: it accepts only requests of trusted proxies.
var scopes = map[string]access.Scope{
	"/":                 access.None,
	"/livez":            access.None,
	"/readyz":           access.None,
	"/openapi.json":     access.None,
	"/healthcheck":      access.None,
	"/demo":             access.None,
	"/demo/":            access.None,
	"/v1/forward-auth":  access.None,
	"/v1/forward-auth/": access.None,

	"/json":          access.Check,
	"/v1/check":      access.Check,
	"/v1/peek":       access.Check,
	"/v1/hold":       access.Check,
	"/v1/commit":     access.Check,
	"/v1/extend":     access.Check,
	"/v1/cancel":     access.Check,
	"/v1/debit":      access.Check,
	"/v1/take-up-to": access.Check,
	"/v1/refund":     access.Refund,
	"/v1/reset":      access.Reset,
}

// ScopeOf returns the scope that a path requires. A path that is not known requires
// [access.Admin], so that a handler without a scope is not open.
func ScopeOf(path string) access.Scope {
	if scope, known := scopes[path]; known {
		return scope
	}
	for known, scope := range scopes {
		if len(known) > 1 && strings.HasSuffix(known, "/") && strings.HasPrefix(path, known) {
			return scope
		}
	}
	return access.Admin
}

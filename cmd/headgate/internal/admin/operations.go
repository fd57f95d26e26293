package admin

import (
	"net/http"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
)

// operation is an operation of the JSON API.
type operation struct {
	method string
	path   string
	scope  access.Scope
	params []string // query parameters
	run    func(*call) (any, error)
}

// operations are all operations of the JSON API. Tests compare them with the OpenAPI
// document and with the documentation, and test each of them with each scope.
var operations = []operation{
	{http.MethodGet, "/admin/v1/openapi.json", access.None, nil, (*call).openAPI},
	{http.MethodGet, "/admin/v1/status", access.Read, nil, (*call).status},
	{http.MethodGet, "/admin/v1/policies", access.Read, nil, (*call).policies},
	{http.MethodGet, "/admin/v1/config", access.Read, nil, (*call).config},
	{http.MethodGet, "/admin/v1/config/history", access.Read, nil, (*call).history},
	{http.MethodPost, "/admin/v1/keys/inspect", access.Read, nil, (*call).inspect},
	{http.MethodPost, "/admin/v1/keys/reset", access.Write, nil, (*call).reset},
	{http.MethodPost, "/admin/v1/keys/refund", access.Write, nil, (*call).refund},
	{http.MethodPost, "/admin/v1/keys/debit", access.Write, nil, (*call).debit},
	{http.MethodPost, "/admin/v1/holds/cancel", access.Write, nil, (*call).cancelHold},
	{http.MethodGet, "/admin/v1/overrides", access.Read, []string{"policy", "target", "n"}, (*call).overrides},
	{http.MethodPost, "/admin/v1/overrides/set", access.Write, nil, (*call).setOverrides},
	{http.MethodPost, "/admin/v1/overrides/remove", access.Write, nil, (*call).removeOverrides},
	{http.MethodGet, "/admin/v1/hot-keys", access.Read, []string{"n", "policy"}, (*call).hotKeys},
	{http.MethodGet, "/admin/v1/denials", access.Read, []string{"n", "policy"}, (*call).denials},
	{http.MethodGet, "/admin/v1/timeline", access.Read, []string{"span", "from"}, (*call).timeline},
	{http.MethodGet, "/admin/v1/audit", access.Read, []string{"n", "before"}, (*call).audit},
}

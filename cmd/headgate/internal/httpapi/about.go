package httpapi

import (
	"encoding/json"
	"net/http"
)

// documentation is the address of the documentation.
const documentation = "https://github.com/headgate/headgate/tree/main/docs"

// about is the response to GET /, for people who open the address in a browser.
type about struct {
	Name          string `json:"name"`
	Description   string `json:"description"`
	Version       string `json:"version,omitempty"`
	Documentation string `json:"documentation"`
	OpenAPI       string `json:"openapi"`
	Check         string `json:"check"`
}

// serveAbout returns a handler for GET /. version may be empty.
func serveAbout(version string) http.Handler {
	body, _ := json.MarshalIndent(&about{ // never fails for strings
		Name: "headgate", Description: "A rate limiter as a service.", Version: version,
		Documentation: documentation, OpenAPI: "/openapi.json", Check: "/v1/check",
	}, "", "  ")
	body = append(body, '\n')
	return readOnly(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = jsonType
		_, _ = w.Write(body)
	})
}

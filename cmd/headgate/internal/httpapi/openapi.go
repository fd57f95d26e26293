package httpapi

import (
	_ "embed"
	"net/http"
)

// openAPI is the OpenAPI document of the whole door, with the doors that stand at it.
//
//go:embed openapi.json
var openAPI []byte

// describe answers with the document, which needs neither the engine nor the store.
func describe(w http.ResponseWriter, r *http.Request) {
	if !readMethod(w, r) {
		return
	}
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(openAPI)
}

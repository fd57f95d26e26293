package main

import (
	"fmt"
	"net/http"
)

// users is a placeholder for the verification of a session or token. A name that is not
// verified must not be a key: a client could invent one for each request.
var users = map[string]string{"Bearer token-of-ann": "ann"}

func userOf(r *http.Request) (string, bool) {
	name, ok := users[r.Header.Get("Authorization")]
	return name, ok
}

func orders(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "no orders yet") }

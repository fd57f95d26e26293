// Loginform is a login form that is shown again after a wrong password, protected by a
// guard. The guard limits failed attempts per address, network, account, and pair of
// address and account. Attackers cannot lock an account's owner out.
package main

import (
	"crypto/subtle"
	"fmt"
	"log"
	"net/http"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

const form = `<!doctype html><title>Log in</title><p>%s</p>
<form method="post" action="/login">
<label>Name <input name="username" autocomplete="username"></label>
<label>Password <input name="password" type="password" autocomplete="current-password"></label>
<button>Log in</button></form>
`

func show(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, form, message)
}

// verify is a placeholder for a password check. It must take the same time for names
// that do not exist.
func verify(name, password string) bool {
	const alicesPassword = "correct horse"
	equal := subtle.ConstantTimeCompare([]byte(password), []byte(alicesPassword)) == 1
	return name == "alice" && equal
}

// login responds with 200 in both cases, so it must report the outcome of the attempt.
func login(w http.ResponseWriter, r *http.Request) {
	if !verify(r.FormValue("username"), r.FormValue("password")) {
		loginguard.Failed(r)
		show(w, http.StatusOK, "Wrong name or password.")
		return
	}
	loginguard.Succeeded(r)
	fmt.Fprintln(w, "Welcome.")
}

// denied shows the form, with the same text for every account. Retry-After is already
// set.
func denied(w http.ResponseWriter, _ *http.Request, _ *httplimit.Denial) {
	show(w, http.StatusTooManyRequests, "Too many attempts. Please wait.")
}

func newHandler() (http.Handler, error) {
	guard, err := loginguard.New(memstore.New(nil), &loginguard.Options{DeniedHandler: denied})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) {
		show(w, http.StatusOK, "Please log in.")
	})
	mux.Handle("POST /login", guard.Protect(http.HandlerFunc(login)))
	return mux, nil
}

func main() {
	handler, err := newHandler()
	if err != nil {
		log.Fatal(err)
	}
	log.Print("listening on http://localhost:8080")
	log.Fatal(http.ListenAndServe("localhost:8080", handler))
}

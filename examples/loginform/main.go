// Loginform is a login form that responds to a wrong password by showing the form
// again. A loginguard.Guard limits failed attempts by address, by network, by account,
// and by the pair of address and account. Attackers cannot lock the owner of an account
// out.
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

// verify is a placeholder for a password check. A real check must take as long for a
// name that does not exist as for a name that exists.
func verify(name, password string) bool {
	const alicesPassword = "correct horse"
	equal := subtle.ConstantTimeCompare([]byte(password), []byte(alicesPassword)) == 1
	return name == "alice" && equal
}

// login responds with status 200 to right and to wrong passwords, so it must report the
// outcome of the attempt to the guard.
func login(w http.ResponseWriter, r *http.Request) {
	// [snippet outcome]
	if !verify(r.FormValue("username"), r.FormValue("password")) {
		loginguard.Failed(r)
		show(w, http.StatusOK, "Wrong name or password.")
		return
	}
	loginguard.Succeeded(r)
	fmt.Fprintln(w, "Welcome.")
	// [end outcome]
}

// denied shows the form with a text that is the same for every account. The guard has
// already set Retry-After.
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

// Loginform is a login as most are, a page that is shown again when the password was wrong, with a guard before it: it slows down
// who guesses, by address, network, account and both, and never locks the owner out for somebody else's doing.
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

// right stands for a comparison with a hash, which takes as long for a name that does not exist.
func right(name, password string) bool {
	const alicesPassword = "correct horse"
	same := subtle.ConstantTimeCompare([]byte(password), []byte(alicesPassword)) == 1
	return name == "alice" && same
}

// login answers 200 either way, so it has to say what became of the try.
func login(w http.ResponseWriter, r *http.Request) {
	if !right(r.FormValue("username"), r.FormValue("password")) {
		loginguard.Failed(r)
		show(w, http.StatusOK, "That was not right.")
		return
	}
	loginguard.Succeeded(r)
	fmt.Fprintln(w, "Welcome.")
}

// denied shows the form, with the same text for every account. Retry-After is set already.
func denied(w http.ResponseWriter, _ *http.Request, _ *httplimit.Denial) {
	show(w, http.StatusTooManyRequests, "Too many tries. Please wait a little.")
}

func newHandler() (http.Handler, error) {
	guard, err := loginguard.New(memstore.New(nil), &loginguard.Options{DeniedHandler: denied})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) { show(w, http.StatusOK, "Please log in.") })
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

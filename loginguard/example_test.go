package loginguard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"

	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// Two lines before a login.
func Example() {
	guard, err := loginguard.New(memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /login", guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "wrong name or password", http.StatusUnauthorized)
	})))

	server := httptest.NewServer(mux)
	defer server.Close()
	for range 7 {
		answer, err := http.PostForm(server.URL+"/login", url.Values{"username": {"bob"}, "password": {"guess"}})
		if err != nil {
			panic(err)
		}
		_ = answer.Body.Close()
		fmt.Printf("%d %q\n", answer.StatusCode, answer.Header.Get("Retry-After"))
	}
	// Output:
	// 401 ""
	// 401 ""
	// 401 ""
	// 401 ""
	// 401 ""
	// 429 "1"
	// 429 "1"
}

// A form that is shown again with status 200, as most are, must say when it failed.
func ExampleFailed() {
	guard, err := loginguard.New(memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	page := guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "correct horse" {
			loginguard.Failed(r)
			fmt.Fprint(w, "the form again")
			return
		}
		loginguard.Succeeded(r)
		fmt.Fprint(w, "welcome")
	}))
	for range 6 {
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader("username=bob&password=guess"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 200
	// 200
	// 200
	// 429
}

// Without HTTP: a mail server, say.
func ExampleGuard_Attempt() {
	guard, err := loginguard.New(memstore.New(nil), &loginguard.Options{Name: "imap"})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	try, err := guard.Attempt(ctx, loginguard.Client{Addr: netip.MustParseAddr("192.0.2.1"), Account: "bob"})
	switch {
	case err != nil:
		fmt.Println("not now")
	case !try.Allowed():
		fmt.Println("try again in", try.RetryAfter())
	default:
		fmt.Println("checking the password")
		err = try.Succeeded(ctx) // or try.Failed()
	}
	fmt.Println(err)
	// Output:
	// checking the password
	// <nil>
}

// The forms around a login: one that sends a mail, where everybody gets the same answer, and one that takes a code.
func ExampleOptions_forms() {
	store := memstore.New(nil)
	secret := []byte("from your configuration, the same everywhere")
	_, err := loginguard.New(store, &loginguard.Options{Name: "reset", KnownBy: "login", Secret: secret, Outcome: loginguard.AlwaysFailure})
	fmt.Println(err)
	_, err = loginguard.New(store, &loginguard.Options{
		Name: "code", Secret: secret,
		Account: func(r *http.Request) string {
			user, _ := r.Context().Value("user of the session that awaits the code").(string)
			return user
		},
		Limits: loginguard.Limits{Account: loginguard.Lockout{Free: 10}.Limits()},
	})
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}

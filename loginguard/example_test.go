package loginguard_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"

	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// Two lines protect a login.
func Example() {
	store := memstore.New(nil)
	login := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "wrong name or password", http.StatusUnauthorized)
	})
	mux := http.NewServeMux()
	// [snippet guard]
	guard, err := loginguard.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("POST /login", guard.Protect(login))
	// [end guard]

	server := httptest.NewServer(mux)
	defer server.Close()
	for range 7 {
		resp, err := http.PostForm(server.URL+"/login", url.Values{"username": {"bob"}, "password": {"guess"}})
		if err != nil {
			panic(err)
		}
		_ = resp.Body.Close()
		fmt.Printf("%d %q\n", resp.StatusCode, resp.Header.Get("Retry-After"))
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

// A form that is shown again with status 200 must report failures.
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

// The guard can be used without HTTP, for example in a mail server.
func ExampleGuard_Attempt() {
	guard, err := loginguard.New(memstore.New(nil), &loginguard.Options{Name: "imap"})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	attempt, err := guard.Attempt(ctx, loginguard.Client{Addr: netip.MustParseAddr("192.0.2.1"), Account: "bob"})
	switch {
	case err != nil:
		fmt.Println("store unavailable")
	case !attempt.Allowed():
		fmt.Println("try again in", attempt.RetryAfter())
	default:
		fmt.Println("checking the password")
		err = attempt.Succeeded(ctx) // or attempt.Failed()
	}
	fmt.Println(err)
	// Output:
	// checking the password
	// <nil>
}

// Other forms of a login: a password reset, which always shows the same response, and a
// one-time code.
func ExampleOptions_forms() {
	store := memstore.New(nil)
	secret := []byte("from your configuration, the same in all processes")
	_, err := loginguard.New(store, &loginguard.Options{Name: "reset", KnownBy: "login", Secret: secret, Outcome: loginguard.AlwaysFailure})
	fmt.Println(err)
	_, err = loginguard.New(store, &loginguard.Options{
		Name: "code", Secret: secret,
		Account: func(r *http.Request) string {
			user, _ := r.Context().Value("user of the session").(string)
			return user
		},
		Limits: loginguard.Limits{Account: loginguard.Lockout{Free: 10}.Limits()},
	})
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}

// Behind a proxy the client is the last address in X-Forwarded-For that is not a proxy.
func ExampleNew_behindProxy() {
	store := memstore.New(nil)
	// [snippet proxy]
	guard, err := loginguard.New(store, &loginguard.Options{
		Client: &clientaddr.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
	})
	// [end proxy]
	fmt.Println(guard != nil, err)
	// Output: true <nil>
}

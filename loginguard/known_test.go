package loginguard_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// A success makes a pair known for KnownFor. Later successes extend the time, but never
// beyond KnownFor from then.
func TestKnownFor(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), nil)
	c := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustBeKnown := func(d time.Duration, want bool) {
		t.Helper()
		if a := mustAttempt(t, g, after(d), c); a.Known() != want {
			t.Errorf("after %v: known %v want %v", d, a.Known(), want)
		}
	}
	mustBeKnown(0, false)
	for range 5 {
		mustSucceed(t, noon, mustAttempt(t, g, noon, c))
	}
	mustBeKnown(0, true)
	mustBeKnown(90*day-1*time.Microsecond, true)
	mustBeKnown(90*day, false)

	// this account has no charges at later times
	c = loginguard.Client{Addr: host(2, 1), Account: "ann"}
	for d := range 61 {
		now := after(time.Duration(d) * day)
		mustSucceed(t, now, mustAttempt(t, g, now, c))
	}
	mustBeKnown((60+89)*day, true) // up to 1/90 of the last success is lost
	mustBeKnown((60+90)*day, false)
}

// A pair is an account and an address. The address with another account, or the account
// from another address, is not known.
func TestKnownPairs(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), nil)
	home := loginguard.Client{Addr: v6(0, 1), Account: "bob"}
	mustSucceed(t, noon, mustAttempt(t, g, noon, home))
	failed := mustAttempt(t, g, noon, loginguard.Client{Addr: host(1, 1), Account: "eve"})
	failed.Failed()
	for _, c := range []struct {
		name   string
		client loginguard.Client
		want   bool
	}{
		{"the same pair", home, true},
		{"another spelling", loginguard.Client{Addr: home.Addr, Account: "\tBOB "}, true},
		{"another address of the same /64", loginguard.Client{Addr: home.Addr.Next(), Account: "bob"}, true},
		{"another /64", loginguard.Client{Addr: v6(0, 2), Account: "bob"}, false},
		{"another account", loginguard.Client{Addr: home.Addr, Account: "ann"}, false},
		{"no account", loginguard.Client{Addr: home.Addr}, false},
		{"a pair that failed", loginguard.Client{Addr: host(1, 1), Account: "eve"}, false},
	} {
		if a := mustAttempt(t, g, noon, c.client); a.Known() != c.want {
			t.Errorf("%s: known %v want %v", c.name, a.Known(), c.want)
		}
	}
}

func TestDeviceTokens(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	g := mustNew(t, store, nil)
	home := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	a := mustAttempt(t, g, noon, home)
	mustSucceed(t, noon, a)
	token := a.DeviceAt(noon.Time())
	flip := func(i int) string {
		b, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		b[i] ^= 1
		return base64.RawURLEncoding.EncodeToString(b)
	}
	other := mustNew(t, store, &loginguard.Options{Secret: []byte("another of 16 bytes and more")})
	form := mustNew(t, store, &loginguard.Options{Name: "code"})
	for _, c := range []struct {
		name           string
		guard          *loginguard.Guard
		account, token string
		after          time.Duration
		want           bool
	}{
		{"valid", g, "Bob", token, 0, true},
		{"last second", g, "bob", token, 90*day - time.Second, true},
		{"expired", g, "bob", token, 90 * day, false},
		{"another account", g, "ann", token, 0, false},
		{"no account", g, "", token, 0, false},
		{"another secret", other, "bob", token, 0, false},
		{"another form", form, "bob", token, 0, false},
		{"no token", g, "bob", "", 0, false},
		{"another expiry", g, "bob", flip(0), 0, false},
		{"another nonce", g, "bob", flip(10), 0, false},
		{"another signature", g, "bob", flip(40), 0, false},
		{"truncated", g, "bob", token[:20], 0, false},
		{"invalid base64", g, "bob", strings.Repeat("!", len(token)), 0, false},
		{"1 MiB", g, "bob", strings.Repeat("A", 1<<20), 0, false},
	} {
		got := mustAttempt(t, c.guard, after(c.after), loginguard.Client{Addr: host(9, 9), Account: c.account, Device: c.token})
		if got.Known() != c.want {
			t.Errorf("%s: known %v want %v", c.name, got.Known(), c.want)
		}
	}
	none := mustAttempt(t, g, noon, loginguard.Client{Addr: host(1, 1)})
	if got := none.DeviceAt(noon.Time()); got != "" {
		t.Errorf("an attempt without an account returned token %q; want none", got)
	}
}

// All clients without an address count as one, so none of them is known by its address.
func TestClientWithoutAddressIsNotKnown(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), nil)
	c := loginguard.Client{Account: "bob"}
	a := mustAttempt(t, g, noon, c)
	mustSucceed(t, noon, a)
	if mustAttempt(t, g, noon, c).Known() {
		t.Error("an account is known without an address")
	}
	c.Device = a.DeviceAt(noon.Time())
	if !mustAttempt(t, g, noon, c).Known() {
		t.Error("a device without an address is not known")
	}
	spray := &attacker{guard: g, now: noon, next: func(n int) loginguard.Client { return loginguard.Client{Account: name(n)} }}
	if spray.step(t); spray.allowed != 29 {
		t.Errorf("%d attempts on other accounts without an address; want 29 after one on the first account", spray.allowed)
	}
}

// The failures of a device count for all of its tokens.
func TestDeviceFailures(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), nil)
	c := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	for n := range 10 { // each time from another address, with the newest token
		c.Addr = host(n, 1)
		a := mustAttempt(t, g, noon, c)
		mustSucceed(t, noon, a)
		c.Device = a.DeviceAt(noon.Time())
	}
	older := c.Device
	again := mustAttempt(t, g, noon, c)
	mustSucceed(t, noon, again)
	for range 5 {
		mustAttempt(t, g, noon, c).Failed()
	}
	if c.Device = again.DeviceAt(noon.Time()); mustAttempt(t, g, noon, c).Allowed() {
		t.Error("a newer token resets the failures of the device")
	}
	c.Device = older

	thief := &attacker{guard: g, now: noon, next: func(n int) loginguard.Client {
		c.Addr = host(100+n, 1)
		return c
	}}
	if got := thief.runUntil(t, after(hour)); got != 19-5 {
		t.Errorf("with a stolen token: %d attempts allowed in an hour after 5 failures of the owner; want 19 in total", got)
	}
}

func TestDeviceCookie(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), &loginguard.Options{DeviceCookie: "known"})
	reports := g.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != right {
			http.Error(w, "wrong", http.StatusUnauthorized)
			return
		}
		loginguard.Succeeded(r)
	}))
	w := mustServe(t, reports, form("192.0.2.1", "bob", right), http.StatusOK)
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].Secure || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode ||
		cookies[0].MaxAge != 90*24*3600 {
		t.Fatalf("cookies %v; want one with Secure, HttpOnly, SameSite=Lax, for 90 days", cookies)
	}
	for range 100 {
		serve(reports, form("192.0.2.1", "bob", "guess"))
	}
	mustServe(t, reports, form("192.0.2.1", "bob", right), http.StatusTooManyRequests)
	r := form("192.0.2.1", "bob", right)
	r.AddCookie(cookies[0])
	mustServe(t, reports, r, http.StatusOK)

	if w := serve(reports, form("198.51.100.1", "bob", "guess")); len(w.Result().Cookies()) != 0 {
		t.Errorf("a failure sets %v; want no cookie", w.Result().Cookies())
	}
	fails := g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		loginguard.Succeeded(r)
		loginguard.Failed(r) // the second factor
	}))
	if w := serve(fails, form("198.51.100.2", "ann", right)); len(w.Result().Cookies()) != 0 {
		t.Errorf("Succeeded followed by Failed sets %v; want no cookie", w.Result().Cookies())
	}
	byStatus := g.Protect(login) // a success by status only
	if w := mustServe(t, byStatus, form("203.0.113.1", "ann", right), http.StatusSeeOther); len(w.Result().Cookies()) != 0 {
		t.Errorf("a success by status sets %v; want no cookie", w.Result().Cookies())
	}
}

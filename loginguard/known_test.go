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

// A success makes a pair known for KnownFor, a later one lengthens it, and no number of them makes it longer than that.
func TestHowLongAPairIsKnown(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), nil)
	c := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustBeKnown := func(d time.Duration, want bool) {
		t.Helper()
		if a := mustTry(t, g, after(d), c); a.Known() != want {
			t.Errorf("after %v: known %v want %v", d, a.Known(), want)
		}
	}
	mustBeKnown(0, false)
	for range 5 {
		mustSucceed(t, noon, mustTry(t, g, noon, c))
	}
	mustBeKnown(0, true)
	mustBeKnown(90*day-1*time.Microsecond, true)
	mustBeKnown(90*day, false)

	c = loginguard.Client{Addr: host(2, 1), Account: "ann"} // nothing of hers was charged in what is now the future
	for d := range 61 {
		now := after(time.Duration(d) * day)
		mustSucceed(t, now, mustTry(t, g, now, c))
	}
	mustBeKnown((60+89)*day, true) // of the last success, up to a 90th part is lost
	mustBeKnown((60+90)*day, false)
}

// Known is an account from an address: not the address, not the account, not another's.
func TestWhatIsKnown(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), nil)
	home := loginguard.Client{Addr: v6(0, 1), Account: "bob"}
	mustSucceed(t, noon, mustTry(t, g, noon, home))
	failed := mustTry(t, g, noon, loginguard.Client{Addr: host(1, 1), Account: "eve"})
	failed.Failed()
	for _, c := range []struct {
		name   string
		client loginguard.Client
		want   bool
	}{
		{"the same", home, true},
		{"written otherwise", loginguard.Client{Addr: home.Addr, Account: "\tBOB "}, true},
		{"another address of the same /64", loginguard.Client{Addr: home.Addr.Next(), Account: "bob"}, true},
		{"another /64", loginguard.Client{Addr: v6(0, 2), Account: "bob"}, false},
		{"another account", loginguard.Client{Addr: home.Addr, Account: "ann"}, false},
		{"no account", loginguard.Client{Addr: home.Addr}, false},
		{"who failed", loginguard.Client{Addr: host(1, 1), Account: "eve"}, false},
	} {
		if a := mustTry(t, g, noon, c.client); a.Known() != c.want {
			t.Errorf("%s: known %v want %v", c.name, a.Known(), c.want)
		}
	}
}

func TestDeviceTokens(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	g := mustNew(t, store, nil)
	home := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	a := mustTry(t, g, noon, home)
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
		{"its own", g, "Bob", token, 0, true},
		{"to the last second", g, "bob", token, 90*day - time.Second, true},
		{"too old", g, "bob", token, 90 * day, false},
		{"another's account", g, "ann", token, 0, false},
		{"no account", g, "", token, 0, false},
		{"another secret", other, "bob", token, 0, false},
		{"another form", form, "bob", token, 0, false},
		{"none", g, "bob", "", 0, false},
		{"another expiry", g, "bob", flip(0), 0, false},
		{"another nonce", g, "bob", flip(10), 0, false},
		{"another signature", g, "bob", flip(40), 0, false},
		{"cut off", g, "bob", token[:20], 0, false},
		{"no base64", g, "bob", strings.Repeat("!", len(token)), 0, false},
		{"giant", g, "bob", strings.Repeat("A", 1<<20), 0, false},
	} {
		got := mustTry(t, c.guard, after(c.after), loginguard.Client{Addr: host(9, 9), Account: c.account, Device: c.token})
		if got.Known() != c.want {
			t.Errorf("%s: known %v want %v", c.name, got.Known(), c.want)
		}
	}
	none := mustTry(t, g, noon, loginguard.Client{Addr: host(1, 1)})
	if got := none.DeviceAt(noon.Time()); got != "" {
		t.Errorf("a try without an account gets the token %q; want none", got)
	}
}

// Clients without an address are one, so none of them is known by it.
func TestNobodyIsKnownFromNowhere(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), nil)
	c := loginguard.Client{Account: "bob"}
	a := mustTry(t, g, noon, c)
	mustSucceed(t, noon, a)
	if mustTry(t, g, noon, c).Known() {
		t.Error("an account is known from nowhere")
	}
	c.Device = a.DeviceAt(noon.Time())
	if !mustTry(t, g, noon, c).Known() {
		t.Error("a device without an address is not known")
	}
	spray := &greedy{guard: g, now: noon, next: func(try int) loginguard.Client { return loginguard.Client{Account: name(try)} }}
	if spray.step(t); spray.tries != 29 {
		t.Errorf("%d accounts tried at once from nowhere; want 29, and the one that was not taken for known", spray.tries)
	}
}

// A device has failures of its own, however many tokens it is given.
func TestDeviceAnswersForItsFailures(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), nil)
	c := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	for n := range 10 { // always from elsewhere, always with the newest token
		c.Addr = host(n, 1)
		a := mustTry(t, g, noon, c)
		mustSucceed(t, noon, a)
		c.Device = a.DeviceAt(noon.Time())
	}
	older := c.Device
	again := mustTry(t, g, noon, c)
	mustSucceed(t, noon, again)
	for range 5 {
		mustTry(t, g, noon, c).Failed()
	}
	if c.Device = again.DeviceAt(noon.Time()); mustTry(t, g, noon, c).Allowed() {
		t.Error("with a newer token a device has failures to make anew")
	}
	c.Device = older

	thief := &greedy{guard: g, now: noon, next: func(try int) loginguard.Client {
		c.Addr = host(100+try, 1)
		return c
	}}
	if got := thief.until(t, after(hour)); got != 19-5 {
		t.Errorf("with a stolen token: %d tries in an hour after 5 of the owner's; want 19 together, as for any pair", got)
	}
}

func TestDeviceCookie(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), &loginguard.Options{DeviceCookie: "known"})
	says := g.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != right {
			http.Error(w, "wrong", http.StatusUnauthorized)
			return
		}
		loginguard.Succeeded(r)
	}))
	w := mustAnswer(t, says, form("192.0.2.1", "bob", right), http.StatusOK)
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].Secure || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode ||
		cookies[0].MaxAge != 90*24*3600 {
		t.Fatalf("cookies %v; want one, secure, not for scripts, for 90 days", cookies)
	}
	for range 100 {
		answer(says, form("192.0.2.1", "bob", "guess"))
	}
	mustAnswer(t, says, form("192.0.2.1", "bob", right), http.StatusTooManyRequests)
	r := form("192.0.2.1", "bob", right)
	r.AddCookie(cookies[0])
	mustAnswer(t, says, r, http.StatusOK)

	if w := answer(says, form("198.51.100.1", "bob", "guess")); len(w.Result().Cookies()) != 0 {
		t.Errorf("a failure sets %v; want no cookie", w.Result().Cookies())
	}
	fails := g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		loginguard.Succeeded(r)
		loginguard.Failed(r) // the second factor
	}))
	if w := answer(fails, form("198.51.100.2", "ann", right)); len(w.Result().Cookies()) != 0 {
		t.Errorf("a success that is taken back sets %v; want no cookie", w.Result().Cookies())
	}
	silent := g.Protect(login) // whose success only its status says
	if w := mustAnswer(t, silent, form("203.0.113.1", "ann", right), http.StatusSeeOther); len(w.Result().Cookies()) != 0 {
		t.Errorf("a status sets %v; want no cookie", w.Result().Cookies())
	}
}

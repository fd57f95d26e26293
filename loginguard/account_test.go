package loginguard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

const (
	urlencoded = "application/x-www-form-urlencoded"
	jsonType   = "application/json"
)

// chargedAccount returns the account to which a guard charges a request, and the body
// that the handler reads. status is 0 if the handler ran.
func chargedAccount(t testing.TB, opts loginguard.Options, r *http.Request) (account string, body []byte, status int) {
	t.Helper()
	h := &eventRecorder{}
	opts.Observer, opts.PlainEvents = h, true
	w := serve(mustNew(t, memstore.New(&memstore.Options{MaxEntries: 1000}), &opts).Protect(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			var err error
			if body, err = io.ReadAll(r.Body); err != nil {
				t.Errorf("the handler cannot read the body: %v", err)
			}
			w.WriteHeader(299)
		})), r)
	if w.Code != 299 {
		return "", nil, w.Code
	}
	return h.events[0].Account, body, 0
}

func post(target, contentType, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return r
}

func multi(t testing.TB, parts ...string) *http.Request {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		if err := w.WriteField(parts[i], parts[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close()
	return post("/", w.FormDataContentType(), b.String())
}

func TestAccountOfRequest(t *testing.T) {
	t.Parallel()
	form := func(text string) *http.Request { return post("/login", urlencoded, text) }
	object := func(text string) *http.Request { return post("/login", jsonType, text) }
	get := httptest.NewRequest(http.MethodGet, "/login?username=bob", nil)
	noBody := httptest.NewRequest(http.MethodPost, "/login", nil)
	noBody.Body = nil
	for _, c := range []struct {
		name   string
		r      *http.Request
		want   string
		status int
	}{
		{"form", form("username=bob&password=x"), "bob", 0},
		{"email", form("email=Bob@Example.COM"), "bob@example.com", 0},
		{"login", form("login=bob"), "bob", 0},
		{"space and case", form("username=+%09BoB%20"), "bob", 0},
		{"the Kelvin sign is a k", form("username=%E2%84%AAim"), "kim", 0},
		{"not latin", form("username=%C3%89MILE"), "émile", 0},
		{"no field", form("password=x"), "", 0},
		{"empty", form("username="), "", 0},
		{"blank", form("username=+"), "", 0},
		{"the same twice", form("username=bob&username=Bob"), "bob", 0},
		{"two values", form("username=bob&username=ann"), "", 400},
		{"two fields", form("username=bob&email=ann"), "", 400},
		{"two fields that agree", form("username=bob&email=bob"), "bob", 0},
		{"empty and another", form("username=&email=ann"), "ann", 0},
		{"query", post("/login?username=bob", urlencoded, ""), "bob", 0},
		{"query and body", post("/login?username=bob", urlencoded, "username=ann"), "", 400},
		{"get", get, "bob", 0},
		{"no body", noBody, "", 0},
		{"broken escape", form("username=bob&password=%zz"), "", 400},
		{"a semicolon", form("username=bob;x=1"), "", 400},
		{"case of the field's name", form("USERname=bob"), "bob", 0},
		{"two, in two cases of the field's name", form("username=bob&Username=ann"), "", 400},
		{"multipart", multi(t, "username", "bob", "password", "x"), "bob", 0},
		{"multipart twice", multi(t, "username", "bob", "username", "ann"), "", 400},
		{"multipart without a boundary", post("/", "multipart/form-data", "username=bob"), "", 400},
		{"json", object(`{"username":"bob","password":"x"}`), "bob", 0},
		{"json in another case", object(`{"UserName":"bob"}`), "bob", 0},
		{"json twice", object(`{"username":"bob","username":"ann"}`), "", 400},
		{"json twice, in two cases", object(`{"username":"bob","USERNAME":"ann"}`), "", 400},
		{"json escapes", object(`{"\u0075sername":"b\u006fb"}`), "bob", 0},
		{"json number", object(`{"login":4711}`), "4711", 0},
		{"json number with an exponent", object(`{"login":47110e-1}`), "4711", 0},
		{"json number with a zero fraction", object(`{"login":4711.00}`), "4711", 0},
		{"large json number", object(`{"login":18446744073709551615}`), "18446744073709551615", 0},
		{"json number out of range", object(`{"login":1e999}`), "1e999", 0},
		{"json null", object(`{"login":null}`), "", 0},
		{"nested json", object(`{"user":{"username":"bob"}}`), "", 0},
		{"json list", object(`["username","bob"]`), "", 0},
		{"json with a vendor type", post("/", "Application/Vnd.API+JSON; charset=UTF-8", `{"login":"bob"}`), "bob", 0},
		{"no type", post("/", "", `{"login":"bob"}`), "bob", 0},
		{"xml", post("/", "application/xml", `<login><Username>bob</Username></login>`), "", 415},
		{"xml with a decoy", post("/?login=ann", "text/xml ;charset=utf-8", `{"login":"ann"}<l><Username>bob</Username></l>`), "", 415},
		{"yaml", post("/", "application/x-yaml", `username: bob`), "", 415},
		{"a type with a suffix", post("/", "application/json xml", `{"login":"bob"}`), "", 415},
		{"xml without a body", post("/?username=bob", "application/xml", ""), "bob", 0},
		{"two json values", object(`{"username":"bob"} {"username":"ann"}`), "", 400},
		{"json with a form type", form(`{"username":"bob"}`), "bob", 0},
		{"json with a text type", post("/", "text/plain", `  {"username":"bob"}`), "bob", 0},
		{"json and query", post("/?email=ann", jsonType, `{"username":"bob"}`), "", 400},
		{"broken json", object(`{"username":"bob",`), "", 400},
		{"invalid json", object(`username=bob`), "", 400},
		{"giant name", form("username=" + strings.Repeat("b", 60<<10)), strings.Repeat("b", 60<<10), 0},
		{"largest body", form("username=bob&p=" + strings.Repeat("x", loginguard.MaxBody-15)), "bob", 0},
		{"too large", form("username=bob&p=" + strings.Repeat("x", loginguard.MaxBody-14)), "", 413},
		{"deeply nested", object(strings.Repeat(`{"a":`, 12_000)), "", 400},
	} {
		got, _, status := chargedAccount(t, loginguard.Options{}, c.r)
		if got != c.want || status != c.status {
			t.Errorf("%s: got %.80q, status %d; want %.80q, %d", c.name, got, status, c.want, c.status)
		}
	}
}

func TestAccountOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts loginguard.Options
		body string
		want string
	}{
		{"one field", loginguard.Options{Fields: []string{"email"}}, "username=x&email=bob", "bob"},
		{"no field", loginguard.Options{Fields: []string{}}, "username=x", ""},
		{
			"a function",
			loginguard.Options{Account: func(r *http.Request) string { return r.FormValue("tenant") + "/" + r.FormValue("user") }},
			"tenant=A&user=bob", "a/bob",
		},
		{
			"custom Normalize",
			loginguard.Options{Normalize: func(s string) string { return strings.ReplaceAll(s, ".", "") }},
			"username=B.o.b", "Bob",
		},
	} {
		got, body, status := chargedAccount(t, c.opts, post("/", urlencoded, c.body))
		if got != c.want || status != 0 || string(body) != c.body {
			t.Errorf("%s: got %q, body %q, status %d; want %q and the body unchanged", c.name, got, body, status, c.want)
		}
	}
}

// If the form was parsed before, the guard uses it and does not change it.
func TestAccountOfParsedForm(t *testing.T) {
	t.Parallel()
	for _, opts := range []loginguard.Options{{}, {Account: func(r *http.Request) string { return r.FormValue("username") }}} {
		for _, r := range []*http.Request{post("/?q=1", urlencoded, "username=bob"), multi(t, "username", "bob")} {
			if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
				t.Fatal(err)
			}
			if got, _, _ := chargedAccount(t, opts, r); got != "bob" || len(r.Form["username"]) != 1 {
				t.Errorf("got %q, the form is then %v; want bob, once", got, r.Form)
			}
		}
	}
}

// The form that the guard parses is not added to the handler's form.
func TestAccountOfPartlyParsedForm(t *testing.T) {
	t.Parallel()
	for _, opts := range []loginguard.Options{{}, {Account: func(r *http.Request) string { return r.FormValue("username") }}} {
		r := multi(t, "username", "bob")
		if err := r.ParseForm(); err != nil {
			t.Fatal(err)
		}
		h := &eventRecorder{}
		opts.Observer, opts.PlainEvents = h, true
		serve(mustNew(t, memstore.New(nil), &opts).Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(1 << 20); err != nil || len(r.Form["username"]) != 1 {
				t.Errorf("the handler's form is %v, error %v; want bob once", r.Form, err)
			}
		})), r)
		if h.events[0].Account != "bob" {
			t.Errorf("got %q want bob", h.events[0].Account)
		}
	}
}

// Unsupported content types are rejected, but only if the guard reads accounts from
// bodies.
func TestUnsupportedContentType(t *testing.T) {
	t.Parallel()
	twice := post("/", jsonType, `<l><Username>bob</Username></l>`)
	twice.Header.Add("Content-Type", "text/xml")
	if _, _, status := chargedAccount(t, loginguard.Options{}, twice); status != http.StatusUnsupportedMediaType {
		t.Errorf("two types, of which one is XML: status %d; want 415", status)
	}
	compressed := post("/?username=ann", jsonType, "\x1f\x8b and so on")
	compressed.Header.Set("Content-Encoding", "gzip")
	if _, _, status := chargedAccount(t, loginguard.Options{}, compressed); status != http.StatusUnsupportedMediaType {
		t.Errorf("compressed body: status %d; want 415", status)
	}
	plain := post("/", jsonType, `{"login":"bob"}`)
	plain.Header.Set("Content-Encoding", "Identity")
	if got, _, status := chargedAccount(t, loginguard.Options{}, plain); got != "bob" || status != 0 {
		t.Errorf("identity encoding: got %q, status %d; want bob", got, status)
	}
	for _, opts := range []loginguard.Options{{Fields: []string{}}, {Account: func(*http.Request) string { return "" }}} {
		if _, _, status := chargedAccount(t, opts, post("/", "application/xml", "<l/>")); status != 0 {
			t.Errorf("XML without account fields: status %d; want it allowed", status)
		}
	}
}

// An outer middleware may have a lower size limit. The response is the same as for the
// limit of the guard.
func TestMaxBytesReaderError(t *testing.T) {
	t.Parallel()
	r := post("/", urlencoded, "username=bob&password=guess")
	r.Body = http.MaxBytesReader(nil, r.Body, 10)
	if _, _, status := chargedAccount(t, loginguard.Options{}, r); status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d; want 413", status)
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
func (brokenBody) Close() error             { return nil }

func TestBodyReadError(t *testing.T) {
	t.Parallel()
	r := post("/", urlencoded, "")
	r.Body = brokenBody{}
	if _, _, status := chargedAccount(t, loginguard.Options{}, r); status != http.StatusBadRequest {
		t.Errorf("status %d; want 400", status)
	}
}

// Invalid requests do not reach the handler, are not charged, and are reported to the
// observer.
func TestInvalidRequestEvents(t *testing.T) {
	t.Parallel()
	h := &eventRecorder{}
	g := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h})
	for range 300 {
		w := serve(g.Protect(login), post("/", urlencoded, "username=a&username=b"))
		if w.Code != 400 || w.Header().Get("Content-Type") != "application/problem+json" || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("status %d, header %v, body %q; want 400 and a problem", w.Code, w.Header(), w.Body)
		}
	}
	if got := h.kinds(); got[loginguard.KindInvalid] != 300 || len(got) != 1 {
		t.Errorf("events %v; want 300 invalid", got)
	}
}

func TestNormalizeIsIdempotent(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= 0x2FFFF; r++ {
		s := string(r)
		n := loginguard.Normalize("a" + s + "b")
		if again := loginguard.Normalize(n); again != n {
			t.Fatalf("%U: normalised once %q, twice %q", r, n, again)
		}
		if upper := loginguard.Normalize("A" + strings.ToUpper(s) + "B"); strings.EqualFold(strings.ToUpper(s), s) && upper != n {
			t.Fatalf("%U: %q and its upper case %q differ", r, n, upper)
		}
	}
}

// For every request: no panic, the handler reads the complete body, and if the handler
// finds an account in a usual way, the guard charges that account.
func FuzzAccount(f *testing.F) {
	for _, seed := range []struct{ query, contentType, body string }{
		{"", urlencoded, "username=bob&password=x"},
		{"username=a", urlencoded, "username=b&username=%zz"},
		{"", jsonType, `{"username":"bob","Email":1}`},
		{"", jsonType, `{"email":"\ud800","username":{}`},
		{"", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n--x--\r\n"},
		{"a=%", "multipart/form-data; boundary=\"", "--"},
		{"", "text/plain; charset=utf-16", "\xff\xfe{"},
		{"", "text/xml", "<l><Username>bob</Username></l>"},
	} {
		f.Add(seed.query, seed.contentType, seed.body)
	}
	f.Fuzz(func(t *testing.T, query, contentType, body string) {
		r := post("/login", contentType, body)
		r.URL = &url.URL{Path: "/login", RawQuery: query}
		got, read, status := chargedAccount(t, loginguard.Options{}, r)
		if status != 0 {
			if status != 400 && status != 413 && status != 415 {
				t.Errorf("status %d", status)
			}
			return
		}
		if string(read) != body {
			t.Errorf("the handler reads %q of %q", read, body)
		}
		again := post("/login", contentType, body)
		again.URL = r.URL
		for _, field := range []string{"username", "email", "login"} {
			mustAgree(t, got, again.FormValue(field))
		}
		// of every content type for which a handler may decode a form
		kind := strings.ToLower(contentType)
		if form, err := url.ParseQuery(body); err == nil && !strings.Contains(kind, "multipart/") && !strings.Contains(kind, "json") {
			for _, field := range []string{"username", "email", "login"} {
				mustAgree(t, got, form.Get(field))
			}
		}
		var fields struct{ Username, Email, Login string }
		if json.NewDecoder(strings.NewReader(body)).Decode(&fields) == nil {
			mustAgree(t, got, fields.Username)
			mustAgree(t, got, fields.Email)
			mustAgree(t, got, fields.Login)
		}
	})
}

func mustAgree(t *testing.T, charged, handler string) {
	t.Helper()
	if want := loginguard.Normalize(handler); want != "" && charged != want {
		t.Errorf("charged %q, but a handler finds %q", charged, want)
	}
}

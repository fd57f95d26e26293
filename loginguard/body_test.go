package loginguard_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

const boundaryType = "multipart/form-data; boundary=x"

// part returns a multipart form with one part that has the given header lines and the
// content bob.
func part(header ...string) string {
	return "--x\r\n" + strings.Join(header, "\r\n") + "\r\n\r\nbob\r\n--x--\r\n"
}

// unreadableBodies are requests in which a handler with another decoder finds the
// account bob.
var unreadableBodies = []struct{ name, query, contentType, body string }{
	{"json: control character", "", jsonType, "{\"a\":\"\x01\",\"username\":\"bob\"}"},
	{"json: line end in a string", "", jsonType, "{\"a\":\"\n\",\"username\":\"bob\"}"},
	{"json: unknown escape", "", jsonType, `{"a":"\q","username":"bob"}`},
	{"json: leading zero", "", jsonType, `{"a":01,"username":"bob"}`},
	{"json: malformed number", "", jsonType, `{"a":1-2.3.4e,"username":"bob"}`},
	{"json: plus sign", "", jsonType, `{"a":+1,"username":"bob"}`},
	{"json: single quotes", "", jsonType, `{'username':'bob'}`},
	{"json: comment", "", jsonType, `{/* */"username":"bob"}`},
	{"json: trailing comma", "", jsonType, `{"username":"bob",}`},
	{"json: truncated", "", jsonType, `{"a":{"username":"bob"`},
	{"json: second value", "", jsonType, `{"username":"decoy"} {"username":"bob"}`},
	{"json: invalid UTF-8", "", jsonType, "{\"username\":\"bob\xff\"}"},
	{"json: byte order mark", "", jsonType, "\ufeff{\"username\":\"bob\"}"},
	{"json: UTF-16", "", jsonType, "{\x00\"\x00"},
	{"json: list as the account", "", jsonType, `{"username":["bob"]}`},
	{"json: object as the account", "", jsonType, `{"username":{"$eq":"bob"}}`},
	{"json: nested too deeply", "", jsonType, strings.Repeat("[", 12_000) + `"username","bob"` + strings.Repeat("]", 12_000)},
	{"json: form type", "", urlencoded, `{"a":01,"username":"bob"}`},
	{"json: text type", "", "text/plain", ` {"a":01,"username":"bob"}`},
	{"json: no type", "", "", "\n{\"a\":01,\"username\":\"bob\"}"},
	{"json: no type, after a byte order mark", "", "", "\ufeff{\"username\":\"bob\"}"},
	{"json: no type, after a comment", "", "", `/* */{"username":"bob"}`},
	{"json: multipart type", "", boundaryType, `{"username":"bob"}` + "\r\n--x--\r\n"},
	{"json type, form", "", jsonType, "username=bob"},
	{"form: invalid escape", "", urlencoded, "username=bob%zz"},
	{"form: escape of IIS", "", urlencoded, "username=%u0062ob"},
	{"form: semicolon", "", urlencoded, "a=1;username=bob"},
	{"form: line end", "", urlencoded, "a=1\nusername=bob"},
	{"text: invalid escape", "", "text/plain", "username=bob%zz"},
	{"text: lines", "", "text/plain", "username=bob\r\npassword=1\r\n"},
	{"no type: semicolon", "", "", "a=1;username=bob"},
	{"query: invalid escape", "username=bob%zz", urlencoded, "password=1"},
	{"query: semicolon", "a=1;username=bob", urlencoded, ""},
	{"multipart: no boundary", "", "multipart/form-data", part(`Content-Disposition: form-data; name="username"`)},
	{"multipart: truncated", "", boundaryType, strings.TrimSuffix(part(`Content-Disposition: form-data; name="username"`), "--\r\n")},
	{"multipart: file", "", boundaryType, part(`Content-Disposition: form-data; name="username"; filename="f"`)},
	{"multipart: two names", "", boundaryType, part(`Content-Disposition: form-data; name="username"; name="a"`)},
	{"multipart: extended name", "", boundaryType, part(`Content-Disposition: form-data; name="username"; name*=utf-8''a`)},
	{
		"multipart: two dispositions", "", boundaryType,
		part(`Content-Disposition: form-data; name="a"`, `Content-Disposition: form-data; name="username"`),
	},
	{"multipart: other disposition", "", boundaryType, part(`Content-Disposition: attachment; name="username"`)},
	{
		"multipart: transfer encoding", "", boundaryType,
		part(`Content-Disposition: form-data; name="username"`, "Content-Transfer-Encoding: base64"),
	},
	{"multipart: JSON part", "", boundaryType, part(`Content-Disposition: form-data; name="username"`, "Content-Type: application/json")},
	{
		"multipart: character set", "", boundaryType,
		part(`Content-Disposition: form-data; name="username"`, "Content-Type: text/plain; charset=utf-16"),
	},
	{"name: dot", "", urlencoded, "username.=bob"},
	{"name: blank", "", urlencoded, "+username=bob"},
	{"name: blank at the end", "", urlencoded, "username%20=bob"},
	{"name: NUL", "", urlencoded, "username%00x=bob"},
	{"name: list", "", urlencoded, "username[]=bob"},
	{"name: list with an index", "", urlencoded, "username%5B0%5D=bob"},
	{"name: brackets", "", urlencoded, "[username]=bob"},
	{"name: query", "username.=bob", urlencoded, "password=1"},
	{"name: no type", "", "", "username[]=bob"},
	{"multipart: blank in the name", "", boundaryType, part(`Content-Disposition: form-data; name=" username"`)},
	{"multipart: list", "", boundaryType, part(`Content-Disposition: form-data; name="username[]"`)},
	{"multipart: text before the parts", "", boundaryType, "username=bob&x=\r\n" + part(`Content-Disposition: form-data; name="a"`)},
	{"multipart: text after the parts", "", boundaryType, part(`Content-Disposition: form-data; name="a"`) + "&username=bob"},
	{
		"multipart: parts after the parts", "", boundaryType,
		part(`Content-Disposition: form-data; name="a"`) + part(`Content-Disposition: form-data; name="username"`),
	},
	{"multipart: extended boundary", "", "multipart/form-data; boundary*=utf-8''x", part(`Content-Disposition: form-data; name="a"`)},
	{"multipart: two boundaries", "", "multipart/form-data; boundary=x; boundary*=utf-8''y", part(`Content-Disposition: form-data; name="a"`)},
	{"character set", "", "application/x-www-form-urlencoded; charset=ibm037", "username=bob"},
	{"two character sets", "", "application/json; charset=utf-8; charset=utf-16", `{"username":"bob"}`},
}

// A handler may use a decoder that accepts more than the guard's. A body that the guard
// cannot read does not reach the handler: otherwise the guesses at one account from many
// addresses would be limited by address only.
func TestUnreadableBodiesDoNotReachHandler(t *testing.T) {
	t.Parallel()
	for _, c := range unreadableBodies {
		h, reached, wrong := &eventRecorder{}, 0, 0
		guarded := mustNew(t, memstore.New(&memstore.Options{MaxEntries: 10_000}), &loginguard.Options{Observer: h}).Protect(http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) {
				reached++
				w.WriteHeader(http.StatusUnauthorized)
			}))
		for n := range 300 {
			r := post("/login?"+c.query, c.contentType, c.body)
			if c.contentType == "" {
				r.Header.Del("Content-Type")
			}
			r.RemoteAddr = host(n, 1).String() + ":4711"
			if w := serve(guarded, r); w.Code != 400 && w.Code != 415 {
				wrong = w.Code
			}
		}
		if wrong != 0 {
			t.Errorf("%s: status %d; want 400 or 415", c.name, wrong)
		}
		if reached != 0 || h.kinds()[loginguard.KindInvalid] != 300 {
			t.Errorf("%s: %d of 300 guesses reached the handler, events %v; want none, and 300 invalid", c.name, reached, h.kinds())
		}
	}
}

// The account also counts if the handler decodes the body as another format than its
// content type names.
func TestAccountInOtherFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, contentType, body, want string
		status                        int
	}{
		{"form with a text type", "text/plain", "username=bob&password=x", "bob", 0},
		{"form with a text type and a line end", "text/plain; charset=utf-8", "username=bob&password=x\r\n", "bob", 0},
		{"form without a type", "", "username=bob", "bob", 0},
		{"form within JSON", urlencoded, `{"a":"&username=bob&"}`, "bob", 0},
		{"form within a JSON text", jsonType, `"&username=bob&"`, "bob", 0},
		{"JSON with a text that looks like a form", jsonType, `{"email":"bob@x.com","next":"/invite?team=4&email=eve@x.com"}`, "bob@x.com", 0},
		{"two accounts: JSON and form", "text/plain", `{"a":";username=bob;b=","username":"decoy"}`, "", 400},
		{"JSON that is no form", urlencoded, `{"username":"bob","password":"100%;"}`, "bob", 0},
		{
			"multipart with a charset", "multipart/form-data; boundary=x; charset=UTF-8",
			part(`Content-Disposition: form-data; name="username"`, "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: 8bit"), "bob", 0,
		},
		{"multipart with a file", boundaryType, "--x\r\nContent-Disposition: form-data; name=\"f\"; filename*=utf-8''f\r\n\r\n\x00\r\n" +
			part(`Content-Disposition: form-data; name="username"`), "bob", 0},
		{"multipart with a star in the name of a file", boundaryType, "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"myname*.txt\"\r\n\r\n\x00\r\n" +
			part(`Content-Disposition: form-data; name="username"`), "bob", 0},
		{"multipart that begins and ends with a line end", boundaryType, "\r\n" + part(`Content-Disposition: form-data; name="username"`) + "\r\n", "bob", 0},
		{"a field of another form", urlencoded, "login[user]=eve&username=bob", "bob", 0},
		{"form in windows-1252", "application/x-www-form-urlencoded; charset=windows-1252", "username=bob", "bob", 0},
		{"form in latin1", "application/x-www-form-urlencoded; charset=latin1", "username=bob", "bob", 0},
		{"form with the character set of old clients", "application/x-www-form-urlencoded; charset=ISO-8859-1", "username=bob", "bob", 0},
	} {
		got, body, status := chargedAccount(t, loginguard.Options{}, post("/", c.contentType, c.body))
		if got != c.want || status != c.status || status == 0 && string(body) != c.body {
			t.Errorf("%s: got %q, status %d, body %q; want %q, %d", c.name, got, status, body, c.want, c.status)
		}
	}
}

// The guard reads nothing if it is configured to find the account elsewhere, or not at
// all.
func TestUnreadableBodiesWithoutFields(t *testing.T) {
	t.Parallel()
	opts := []loginguard.Options{{Fields: []string{}}, {Account: func(r *http.Request) string {
		body, _ := io.ReadAll(r.Body)
		return string(body)
	}}}
	for _, c := range unreadableBodies {
		for _, o := range opts {
			if _, body, status := chargedAccount(t, o, post("/?"+c.query, c.contentType, c.body)); status != 0 || string(body) != c.body {
				t.Errorf("%s: status %d, body %q; want it allowed and unchanged", c.name, status, body)
			}
		}
	}
}

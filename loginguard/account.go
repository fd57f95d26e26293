package loginguard

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// MaxBody is the maximum size, in bytes, of the request body of an attempt. Requests
// with a larger body are rejected with 413.
const MaxBody = 64 << 10

// The reasons for which a request is rejected. The guess does not reach the handler, so
// no limit is charged.
var (
	errTooLarge    = errors.New("loginguard: body too large")
	errUnreadable  = errors.New("loginguard: cannot read body")
	errAmbiguous   = errors.New("loginguard: request has several accounts")
	errContentType = errors.New("loginguard: unsupported content type of body")
)

// Normalize returns account without surrounding white space and with its case folded,
// so that spellings that differ only in white space or case are one account. It applies
// neither Unicode normalisation, such as for the two encodings of “é”, nor the
// collation of a database: see [Options.Normalize].
func Normalize(account string) string {
	return strings.Map(smallestFold, strings.TrimSpace(account))
}

// smallestFold returns the same rune for all runes that differ only in case, such as
// “k”, “K” and the Kelvin sign. unicode.ToLower alone does not: it returns different
// results for some runes that a case-insensitive comparison treats as equal. An
// attacker could then spell one account in several ways.
func smallestFold(r rune) rune {
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	return unicode.ToLower(smallest)
}

// account returns the account of an attempt. It reads the body and replaces it, so that
// the handler can read the body again.
func (g *Guard) account(r *http.Request) (string, error) {
	if r.Body == nil { // only a request that was not received by a server has no body
		r.Body = http.NoBody
	}
	body, err := readBody(r.Body)
	if err != nil {
		return "", err
	}
	r.Body = rereadBody{bytes.NewReader(body), r.Body}
	if g.opts.Account != nil {
		return g.opts.Account(probeOf(r, body)), nil
	}
	if len(g.opts.Fields) > 0 && len(body) > 0 && !isReadableBody(r.Header) {
		return "", errContentType
	}
	values := g.formValues(r.Form) // r.Form is set if the body was already parsed
	probe := probeOf(r, body)
	// The error is ignored as in http.Request.FormValue: fields that were parsed before
	// an error count. MaxBody as the argument keeps all parts of the form in memory.
	_ = probe.ParseMultipartForm(MaxBody)
	return g.singleAccount(slices.Concat(values, g.formValues(probe.Form), g.jsonValues(body)))
}

// probeOf returns a copy of r with body as its body, so that parsing the copy does not
// change r. If body is empty, because another handler has already read it, the copy
// keeps the forms that were parsed from it.
func probeOf(r *http.Request, body []byte) *http.Request {
	probe := r.WithContext(r.Context())
	probe.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) > 0 {
		probe.Form, probe.PostForm, probe.MultipartForm = nil, nil, nil
	}
	return probe
}

func readBody(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxBody+1))
	var smaller *http.MaxBytesError // the error of a smaller limit that an outer middleware set
	switch {
	case len(body) > MaxBody, errors.As(err, &smaller):
		return nil, errTooLarge
	case err != nil:
		return nil, errUnreadable // the cause is omitted: its text may contain parts of the body
	}
	return body, nil
}

// isReadableBody reports whether the guard can find accounts in a body with the header
// fields h. Some handlers also decode XML, YAML or compressed bodies, which the guard
// cannot read. An attacker could put the account there, and the attempt would be
// charged to no account, or to an invented one.
func isReadableBody(h http.Header) bool {
	return !slices.ContainsFunc(h["Content-Encoding"], func(coding string) bool { return !strings.EqualFold(coding, "identity") }) &&
		!slices.ContainsFunc(h["Content-Type"], func(line string) bool {
			kind, _, _ := strings.Cut(strings.ToLower(line), ";")
			return !isReadableType(strings.TrimSpace(kind))
		})
}

func isReadableType(kind string) bool {
	switch kind {
	case "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json", "text/json":
		return true
	}
	return strings.HasSuffix(kind, "+json")
}

// rereadBody is a request body that was read and can be read a second time. Closing it
// closes the original body.
type rereadBody struct {
	io.Reader
	io.Closer
}

// singleAccount returns the account in values, or an empty string if there is none.
// Several different accounts are an error: the handler might use a different one than
// the guard, and attackers could then have their guesses charged to an invented
// account.
func (g *Guard) singleAccount(values []string) (string, error) {
	found, normal := "", ""
	for _, v := range values {
		n := g.opts.Normalize(v)
		if n == "" {
			continue
		}
		if normal != "" && n != normal {
			return "", errAmbiguous
		}
		found, normal = v, n
	}
	return found, nil
}

// formValues returns the values of all account fields in a query or form. Upper and
// lower case in field names are equal, as in many libraries that bind forms to structs.
func (g *Guard) formValues(form url.Values) []string {
	var values []string
	for name, all := range form {
		if g.isField(name) {
			values = append(values, all...)
		}
	}
	return values
}

// isField reports whether name is the name of an account field.
func (g *Guard) isField(name string) bool {
	return slices.ContainsFunc(g.opts.Fields, func(field string) bool { return strings.EqualFold(field, name) })
}

// jsonValues returns the values of the account fields in body if it is a JSON object.
// It ignores the content type of the request, because most handlers do. Upper and lower
// case in member names are equal. If a name occurs several times, all of its values are
// returned, because decoders differ in which value they use.
func (g *Guard) jsonValues(body []byte) []string {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return nil
	}
	var values []string
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return values
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return values
		}
		if text, _ := name.(string); g.isField(text) {
			values = append(values, scalar(value))
		}
	}
	return values
}

// scalar returns the text of a JSON string or number, and an empty string for any other
// value.
func scalar(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(value, &n) == nil {
		return plainNumber(n)
	}
	return ""
}

// plainNumber returns the same text for all notations of the same number, such as 1000,
// 1000.0 and 1e3, because a handler may decode them to the same account.
func plainNumber(n json.Number) string {
	f, err := n.Float64()
	// an integer without “.” or an exponent keeps its text, so that large integers stay
	// exact
	if err != nil || !strings.ContainsAny(n.String(), ".eE") {
		return n.String()
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

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

// MaxBody is the most bytes that the body of a try may have; more are refused with 413.
const MaxBody = 64 << 10

// The reasons to refuse a request. No guess reaches the handler, so nothing is charged.
var (
	errTooLarge  = errors.New("loginguard: the body is too large")
	errUnreadable    = errors.New("loginguard: the body could not be read")
	errAmbiguous = errors.New("loginguard: the request names several accounts")
	errContentType      = errors.New("loginguard: the body is of a type in which no account can be found")
)

// Normalize makes one of all ways to write an account that differ in case or in white space around it. It does not join the two
// ways in which Unicode can write “é”, nor what a database's collation may take for equal: see [Options.Normalize].
func Normalize(account string) string {
	return strings.Map(smallestFold, strings.TrimSpace(account))
}

// smallestFold is the one rune that stands for all that differ in case only: “k”, “K” and the Kelvin sign. Lower-casing alone
// would let an attacker write a name in ways that a comparison without regard to case takes for equal.
func smallestFold(r rune) rune {
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	return unicode.ToLower(smallest)
}

// account finds whom a try is for, in a body that the handler can still read.
func (g *Guard) account(r *http.Request) (string, error) {
	if r.Body == nil { // only a server's requests always have one
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
	values := g.formValues(r.Form) // of a body that was parsed, and so read, before
	probe := probeOf(r, body)
	_ = probe.ParseMultipartForm(MaxBody) // what can be read counts, as it does in FormValue; nothing this small is in a file
	return g.singleAccount(slices.Concat(values, g.formValues(probe.Form), g.jsonValues(body)))
}

// probeOf is a request with the same body. What is parsed of it does not show in the handler's. Of a body that was read before,
// what was parsed then is all there is.
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
	var smaller *http.MaxBytesError // of a middleware further out
	switch {
	case len(body) > MaxBody, errors.As(err, &smaller):
		return nil, errTooLarge
	case err != nil:
		return nil, errUnreadable // the cause may hold what was sent
	}
	return body, nil
}

// readable is whether the guard finds accounts in such a body. A handler that binds whatever a request says its body is finds them
// in XML and YAML, too, or unpacks it: there an attacker would put them, to be charged for none, or for one that he made up.
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

// restored is a body that was read, to be read again.
type rereadBody struct {
	io.Reader
	io.Closer
}

// only is the one account among values. A request that names several is no honest one: whatever this would pick, the
// handler may pick another, and an attacker would have his guesses charged to a name that he made up.
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

// in are the values in a query and a body of either kind of form, as net/http reads them for the handler. The case of a field's
// name makes no difference, as it makes none to many who bind forms to structs.
func (g *Guard) formValues(form url.Values) []string {
	var values []string
	for name, those := range form {
		if g.isField(name) {
			values = append(values, those...)
		}
	}
	return values
}

// isField is whether a field or member of that name holds the account.
func (g *Guard) isField(name string) bool {
	return slices.ContainsFunc(g.opts.Fields, func(field string) bool { return strings.EqualFold(field, name) })
}

// inJSON are the values in a JSON object, whatever the request says its type is: handlers seldom ask. Members count without
// regard to case and however often they come, as decoders differ in which they take.
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

// scalar is a JSON string's text, or a number's; else empty.
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

// plain is the one way to write a number that stands for 1000, 1000.0, 1e3 and all others that a handler may read as the same.
func plainNumber(n json.Number) string {
	f, err := n.Float64()
	if err != nil || !strings.ContainsAny(n.String(), ".eE") { // whole ones are exact, however large
		return n.String()
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

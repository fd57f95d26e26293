package loginguard

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
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
	errQuery       = errors.New("loginguard: cannot read query string")
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
	switch {
	case g.opts.Account != nil:
		return g.opts.Account(probeOf(r, body)), nil
	case len(g.opts.Fields) == 0:
		return "", nil
	}
	values, err := g.formValues(r.Form) // r.Form is set if the body was already parsed
	if err != nil {
		return "", err
	}
	inQuery, err := g.queryValues(r)
	if err != nil {
		return "", err
	}
	inBody, err := g.bodyValues(r.Header, body)
	if err != nil {
		return "", err
	}
	return g.singleAccount(slices.Concat(values, inQuery, inBody))
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

// rereadBody is a request body that was read and can be read a second time. Closing it
// closes the original body.
type rereadBody struct {
	io.Reader
	io.Closer
}

// singleAccount returns the account in values, or an empty string if there is none.
// Several different accounts are an error: the handler and the guard might use
// different ones, and attackers could then have their guesses charged to an invented
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
// A name that other decoders may read as an account field is an error.
func (g *Guard) formValues(form url.Values) ([]string, error) {
	var values []string
	for name, all := range form {
		switch {
		case g.isField(name):
			values = append(values, all...)
		case g.isSimilarToField(name):
			return nil, errUnreadable
		}
	}
	return values, nil
}

// isField reports whether name is the name of an account field.
func (g *Guard) isField(name string) bool {
	return slices.ContainsFunc(g.opts.Fields, func(field string) bool { return strings.EqualFold(field, name) })
}

// isSimilarToField reports whether some decoders may read name as the name of an account
// field.
func (g *Guard) isSimilarToField(name string) bool {
	name = simpleName(name)
	return name != "" && slices.ContainsFunc(g.opts.Fields, func(field string) bool { return strings.EqualFold(simpleName(field), name) })
}

// simpleName returns a field name without the parts that some decoders remove: a NUL
// byte and what follows it, blanks, dots at the end, and brackets with or without an
// index. The name “login[user]” remains, because it belongs to another field.
func simpleName(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	if i := strings.IndexByte(name, '['); i > 0 && strings.Trim(name[i:], "[]0123456789. ") == "" {
		name = name[:i]
	}
	isRemoved := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '[' || r == ']' }
	return strings.TrimRightFunc(strings.TrimLeftFunc(name, isRemoved), func(r rune) bool { return isRemoved(r) || r == '.' })
}

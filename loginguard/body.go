package loginguard

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// bodyValues returns the values of all account fields in a body with the header fields
// h. A body that the guard cannot read completely is an error: the handler may use a
// decoder that accepts more, and would then find an account that the guard did not
// charge.
func (g *Guard) bodyValues(h http.Header, body []byte) ([]string, error) {
	if len(body) == 0 {
		return nil, nil
	}
	kind, boundary, err := bodyType(h)
	switch {
	case err != nil:
		return nil, err
	case isJSONType(kind) || looksLikeJSON(body):
		return g.jsonAndFormValues(body, isJSONType(kind))
	case kind == "multipart/form-data":
		return g.multipartValues(body, boundary)
	case bytes.ContainsFunc(bytes.TrimRight(body, "\r\n"), isControl):
		return nil, errUnreadable // forms encode them; a handler may split the body at a line end
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errUnreadable
	}
	return g.formValues(form)
}

// bodyType returns the content type of a body with the header fields h, and the
// boundary of a multipart body. It returns errContentType if the guard cannot find
// accounts in the body, or if a parameter has the notation of RFC 2231 (boundary*),
// which not all parsers know. Some handlers also decode XML, YAML, compressed bodies or
// other character sets, which the guard cannot read. An attacker could put the account
// there, and the attempt would be charged to no account, or to an invented one.
func bodyType(h http.Header) (kind, boundary string, err error) {
	lines := h["Content-Type"]
	encoded := slices.ContainsFunc(h["Content-Encoding"], func(c string) bool { return !strings.EqualFold(c, "identity") })
	if encoded || len(lines) > 1 {
		return "", "", errContentType
	}
	if len(lines) == 0 || lines[0] == "" {
		return "", "", nil
	}
	kind, parameters, err := mime.ParseMediaType(lines[0])
	if err != nil || strings.Contains(outsideQuotes(lines[0]), "*") || !isReadableType(kind) || !isReadableCharset(parameters["charset"]) {
		return "", "", errContentType
	}
	return kind, parameters["boundary"], nil
}

func isReadableType(kind string) bool {
	switch kind {
	case "text/plain", "application/x-www-form-urlencoded", "multipart/form-data":
		return true
	}
	return isJSONType(kind)
}

func isJSONType(kind string) bool {
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// isReadableCharset reports whether the ASCII characters have their usual codes in the
// character set.
func isReadableCharset(charset string) bool {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252", "cp1252":
		return true
	}
	return false
}

// looksLikeJSON reports whether a decoder may read body as a JSON object or list,
// whatever its content type is. Some decoders skip a byte order mark, control
// characters or a comment before the first value.
func looksLikeJSON(body []byte) bool {
	rest := bytes.TrimLeftFunc(body, func(r rune) bool { return r <= ' ' || r == '\ufeff' || r == utf8.RuneError })
	return len(rest) > 0 && bytes.IndexByte([]byte("{[/"), rest[0]) >= 0
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// queryValues returns the values of all account fields in the query string. An invalid
// query is an error, for the reason that bodyValues documents.
func (g *Guard) queryValues(r *http.Request) ([]string, error) {
	if r.URL == nil { // only a request that was not received by a server has no URL
		return nil, nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errQuery
	}
	return g.formValues(query)
}

// jsonAndFormValues returns the values of the account fields in body, which must be
// JSON. Account fields that a handler finds if it decodes the same bytes as a form also
// count, with “;” as a separator, as some decoders accept it. They do not count in an
// object with a JSON content type, because ordinary texts in it may look like a form.
func (g *Guard) jsonAndFormValues(body []byte, typed bool) ([]string, error) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, errUnreadable
	}
	values, err := g.jsonValues(body)
	if err != nil {
		return nil, err
	}
	if typed && bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return values, nil
	}
	// an error only means that the body is no form
	form, _ := url.ParseQuery(strings.ReplaceAll(string(body), ";", "&"))
	inForm, err := g.formValues(form)
	return append(values, inForm...), err
}

// jsonValues returns the values of the account fields in body, which is valid JSON, if
// it is an object. Upper and lower case in member names are equal. If a name occurs
// several times, all of its values are returned, because decoders differ in which value
// they use.
func (g *Guard) jsonValues(body []byte) ([]string, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return nil, nil
	}
	var values []string
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, errUnreadable
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, errUnreadable
		}
		if text, _ := name.(string); g.isField(text) {
			v, err := scalar(value)
			if err != nil {
				return nil, err
			}
			values = append(values, v)
		}
	}
	return values, nil
}

// scalar returns the text of a JSON string or number, and an empty string for null. Any
// other value is an error: some decoders convert ["bob"] or true to text.
func scalar(value json.RawMessage) (string, error) {
	var s string // null leaves it empty
	if json.Unmarshal(value, &s) == nil {
		return s, nil
	}
	var n json.Number
	if json.Unmarshal(value, &n) == nil {
		return plainNumber(n), nil
	}
	return "", errUnreadable
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

// multipartValues returns the values of the account fields in a multipart form.
func (g *Guard) multipartValues(body []byte, boundary string) ([]string, error) {
	if !hasOnlyParts(body, boundary) {
		return nil, errUnreadable
	}
	var values []string
	for parts := multipart.NewReader(bytes.NewReader(body), boundary); ; {
		part, err := parts.NextRawPart()
		if err == io.EOF { // a wrapped EOF means that the last boundary is missing
			return values, nil
		}
		if err != nil || !isNamedOnce(part) {
			return nil, errUnreadable
		}
		isField := g.isField(part.FormName())
		switch {
		case isField && !isPlainPart(part), !isField && g.isSimilarToField(part.FormName()):
			return nil, errUnreadable
		case !isField:
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return nil, errUnreadable
		}
		values = append(values, string(value))
	}
}

// hasOnlyParts reports whether a multipart body has no text before the first boundary
// and none after the last, except line ends. Some decoders find parts there.
func hasOnlyParts(body []byte, boundary string) bool {
	first, last := []byte("--"+boundary), []byte("--"+boundary+"--")
	body = bytes.Trim(body, "\r\n")
	return bytes.HasPrefix(body, first) && bytes.Index(body, last) == len(body)-len(last)
}

// isNamedOnce reports whether part has exactly one name. Parsers differ in which of
// several they use.
func isNamedOnce(part *multipart.Part) bool {
	lines := part.Header["Content-Disposition"]
	if len(lines) != 1 || part.FormName() == "" {
		return false
	}
	line := strings.ReplaceAll(strings.ToLower(outsideQuotes(lines[0])), "filename*", "")
	return !strings.Contains(line, "name*") // another notation of the name; see RFC 2231
}

// outsideQuotes returns a header line without its quoted texts. It returns the whole
// line if parsers may differ in where a quoted text ends.
func outsideQuotes(line string) string {
	pieces := strings.Split(line, `"`)
	if len(pieces)%2 == 0 || strings.Contains(line, `\"`) {
		return line
	}
	var outside strings.Builder
	for i := 0; i < len(pieces); i += 2 {
		outside.WriteString(pieces[i])
	}
	return outside.String()
}

// isPlainPart reports whether the bytes of part are its value for every handler. Some
// handlers read a file as text, or decode the part first.
func isPlainPart(part *multipart.Part) bool {
	kind, _, err := bodyType(http.Header(part.Header))
	return err == nil && part.FileName() == "" && (kind == "" || kind == "text/plain") &&
		!slices.ContainsFunc(part.Header["Content-Transfer-Encoding"], func(e string) bool {
			return !slices.Contains([]string{"7bit", "8bit", "binary"}, strings.ToLower(e))
		})
}

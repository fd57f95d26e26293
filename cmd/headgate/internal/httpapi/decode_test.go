package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	k := engine.Check{Limit: "10/s", Key: "k", Cost: 1}
	for _, tt := range []struct {
		name, body string
		want       []engine.Check
		several    bool
	}{
		{"a limit", `{"limit":"10/s","key":"k"}`, []engine.Check{k}, false},
		{"a policy", `{"policy":"login","key":"","cost":0}`, []engine.Check{{Policy: "login"}}, false},
		{
			"all fields, white space", " {\t\"cost\" : 7 ,\n\"algorithm\":\"gcra\",\r\"key\":\"k\",\"limit\":\"1/s\" } \n",
			[]engine.Check{{Limit: "1/s", Algorithm: "gcra", Key: "k", Cost: 7}},
			false,
		},
		{"several", `{"checks":[{"limit":"10/s","key":"k"},{"key":"u","policy":"p"}]}`, []engine.Check{k, {Policy: "p", Key: "u", Cost: 1}}, true},
		{"one of several", `{"checks": [ {"limit":"10/s","key":"k"} ] }`, []engine.Check{k}, true},
		{"escapes", `{"limit":"10/s","key":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00"}`, []engine.Check{{Limit: "10/s", Key: "\"\\/\b\f\n\r\tAé😀", Cost: 1}}, false},
		{"an escaped NUL", `{"limit":"10/s","key":"a\u0000b"}`, []engine.Check{{Limit: "10/s", Key: "a\x00b", Cost: 1}}, false},
		{"beyond ASCII", `{"limit":"10/s","key":"é😀` + "\ufffd" + `"}`, []engine.Check{{Limit: "10/s", Key: "é😀\ufffd", Cost: 1}}, false},
		{"an escaped name", `{"\u006cimit":"10/s","key":"k"}`, []engine.Check{k}, false},
		{"the largest cost", `{"limit":"10/s","key":"k","cost":9223372036854775807}`, []engine.Check{{Limit: "10/s", Key: "k", Cost: 1<<63 - 1}}, false},
		{"a number as key", `{"limit":"10/s","key":5}`, []engine.Check{{Limit: "10/s", Key: "5", Cost: 1}}, false},
		{"a large number as key", `{"key":-98765432109876543210 ,"limit":"10/s"}`, []engine.Check{{Limit: "10/s", Key: "-98765432109876543210", Cost: 1}}, false},
		{"minus, for the engine to refuse", `{"limit":"10/s","key":"k","cost":-3}`, []engine.Check{{Limit: "10/s", Key: "k", Cost: -3}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request{checks: []engine.Check{{Policy: "left over"}}}
			if err := r.decode(tt.body, requestFields, 32, 32); err != nil {
				t.Fatalf("%s: %v", tt.body, err)
			}
			if !slices.Equal(r.checks, tt.want) || r.isArray != tt.several {
				t.Errorf("%s: got %+v, several %v; want %+v, %v", tt.body, r.checks, r.isArray, tt.want, tt.several)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	const rest, integers = `"limit":"10/s","key":"k"`, "must be a whole number from 0 to 9223372036854775807"
	for _, tt := range []struct{ name, body, field, said string }{
		{"nothing", "", "", "the body is empty"},
		{"blanks", " \n", "", "the body is empty"},
		{"an array", `[]`, "", "the body must be an object, not an array"},
		{"null", `null`, "", "the body must be an object, not null"},
		{"no JSON", `limit=10/s`, "", "malformed JSON at byte 0: expected an object"},
		{"a byte order mark", "\ufeff{}", "", "malformed JSON at byte 0"},
		{"an object that does not end", `{` + rest, "", "malformed JSON at byte 25: expected a comma or }"},
		{"a comma too many", `{` + rest + `,}`, "", "malformed JSON at byte 26: expected a field name"},
		{"a comma first", `{,` + rest + `}`, "", "malformed JSON at byte 1"},
		{"no colon", `{"key" "k"}`, "", "malformed JSON at byte 7: expected a colon"},
		{"no value", `{"key":}`, "key", "malformed JSON at byte 7: expected a string or an integer"},
		{"single quotes", `{'key':'k'}`, "", "malformed JSON at byte 1"},
		{"more behind", `{` + rest + `} {}`, "", "unexpected data after the object, at byte 27"},
		{"a NUL behind", `{` + rest + "}\x00", "", "unexpected data after the object, at byte 26"},
		{"a NUL in a key", "{\"key\":\"a\x00b\"}", "key", "malformed JSON at byte 9: control character"},
		{"a line end in a key", "{\"key\":\"é\n\"}", "key", "control character"},
		{"a key that does not end", `{"key":"k`, "key", "unterminated string"},
		{"a long key that does not end", `{"key":"é`, "key", "unterminated string"},
		{"half an escape", `{"key":"\`, "key", "unterminated string"},
		{"no escape", `{"key":"\x41"}`, "key", "expected an escape"},
		{"a short escape", `{"key":"\u12"}`, "key", "expected an escape"},
		{"a signed escape", `{"key":"\u+123"}`, "key", "expected an escape"},
		{"half a surrogate pair", `{"key":"\ud800"}`, "key", "incomplete surrogate pair"},
		{"the wrong half", `{"key":"\ude00\ud83d"}`, "key", "incomplete surrogate pair"},
		{"a pair of other things", `{"key":"\ud83d\u0041"}`, "key", "incomplete surrogate pair"},
		{"invalid UTF-8", "{\"key\":\"a\xffb\"}", "key", "malformed JSON at byte 9: invalid UTF-8"},
		{"an encoded surrogate", "{\"key\":\"\xed\xa0\x80\"}", "key", "invalid UTF-8"},
		{"an unknown field", `{` + rest + `,"cots":2}`, "cots", `unknown field "cots"; did you mean "cost"?`},
		{"another case", `{"Key":"k","limit":"10/s"}`, "Key", `did you mean "key"?`},
		{"a far name", `{"identifier":"k"}`, "identifier", `unknown field "identifier"; must be policy, limit, algorithm, key, cost or checks`},
		{"a long name", `{"` + strings.Repeat("é", 5000) + `":1}`, strings.Repeat("é", 20) + "…", "unknown field"},
		{"a name without letters", `{"":1}`, "", "unknown field"},
		{"a field twice", `{"key":"a",` + rest + `}`, "key", `duplicate field "key"`},
		{"a field twice, once escaped", `{"\u006bey":"a",` + rest + `}`, "key", `duplicate field "key"`},
		{"a fraction as key", `{"key":5.5,"limit":"10/s"}`, "key", `field "key" must be a whole number, without a fraction or an exponent`},
		{"a leading zero in a key", `{"key":05,"limit":"10/s"}`, "key", "leading zero"},
		{"an array as key", `{"key":[5],"limit":"10/s"}`, "key", `field "key" must be a string or an integer, not an array`},
		{"null as policy", `{"policy":null,"key":"k"}`, "policy", `field "policy" must be a string, not null`},
		{"true as limit", `{"limit":true,"key":"k"}`, "limit", "must be a string, not true or false"},
		{"depth", `{"algorithm":` + strings.Repeat("[", 60_000) + `}`, "algorithm", "must be a string, not an array"},
		{"depth of objects", strings.Repeat(`{"checks":[`, 5_000), "checks[0].checks", `unknown field "checks[0].checks"`},
		{"cost as text", `{` + rest + `,"cost":"1"}`, "cost", `field "cost" must be a whole number, not a string`},
		{"a fraction", `{` + rest + `,"cost":1.0}`, "cost", "without a fraction or an exponent"},
		{"an exponent", `{` + rest + `,"cost":1e2}`, "cost", "without a fraction or an exponent"},
		{"too much", `{` + rest + `,"cost":9223372036854775808}`, "cost", `"cost" is 9223372036854775808; ` + integers},
		{"too little", `{` + rest + `,"cost":-9223372036854775809}`, "cost", `"cost" is -9223372036854775809; ` + integers},
		{"a thousand digits", `{` + rest + `,"cost":` + strings.Repeat("9", 1000) + `}`, "cost", strings.Repeat("9", 40) + "…; " + integers},
		{"a leading zero", `{` + rest + `,"cost":01}`, "cost", "leading zero"},
		{"a plus", `{` + rest + `,"cost":+1}`, "cost", "malformed JSON"},
		{"only a minus", `{` + rest + `,"cost":-}`, "cost", "expected a digit"},
		{"NaN", `{` + rest + `,"cost":NaN}`, "cost", "malformed JSON"},
		{"no policy and no limit", `{"key":"k"}`, "policy", `field "policy" or "limit" is required`},
		{"an empty object", `{}`, "policy", `field "policy" or "limit" is required`},
		{"policy and limit", `{"policy":"p",` + rest + `}`, "limit", "is not allowed next to policy"},
		{"policy and algorithm", `{"policy":"p","algorithm":"gcra","key":"k"}`, "algorithm", "is not allowed next to policy"},
		{"an empty policy", `{"policy":"","key":"k"}`, "policy", "is empty"},
		{"no key", `{"limit":"10/s"}`, "key", `field "key" is required (it may be an empty string)`},
		{"no key in the second", `{"checks":[{` + rest + `},{"policy":"p"}]}`, "checks[1].key", `field "checks[1].key" is required`},
		{"no limit in the second", `{"checks":[{` + rest + `},{"key":"p"}]}`, "checks[1].policy", `field "checks[1].policy" or "checks[1].limit" is required`},
		{"checks and a field", `{"checks":[{` + rest + `}],"cost":1}`, "cost", "is not allowed next to checks"},
		{"a field and checks", `{"policy":"p","checks":[{` + rest + `}]}`, "policy", "is not allowed next to checks"},
		{"no checks", `{"checks":[]}`, "checks", "is empty"},
		{"checks as an object", `{"checks":{}}`, "checks", "must be an array of checks, not an object"},
		{"a check as text", `{"checks":[{` + rest + `},"k"]}`, "checks[1]", `field "checks[1]" must be an object, not a string`},
		{"checks in checks", `{"checks":[{"checks":[]}]}`, "checks[0].checks", `unknown field "checks[0].checks"`},
		{"an unknown field in a check", `{"checks":[{` + rest + `,"kee":1}]}`, "checks[0].kee", `unknown field "checks[0].kee"; did you mean "key"?`},
		{"a field twice in a check", `{"checks":[{` + rest + `,"key":"j"}]}`, "checks[0].key", `duplicate field "checks[0].key"`},
		{"a wrong type in a check", `{"checks":[{` + rest + `},{"limit":1}]}`, "checks[1].limit", "must be a string, not a number"},
		{"an array that does not end", `{"checks":[{` + rest + `}`, "checks[0]", "expected a comma or ]"},
		{"a comma at the end", `{"checks":[{` + rest + `},]}`, "checks[1]", "expected an object"},
		{"junk in a check", `{"checks":[{` + rest + `;}]}`, "checks[0]", "expected a comma or }"},
		{"too many checks", `{"checks":[` + strings.Repeat(`{`+rest+`},`, 3) + `{` + rest + `}]}`, "checks", "must have at most 3 checks"},
		{"far too many checks", `{"checks":[` + strings.Repeat(`{`+rest+`},`, 2000), "checks", "must have at most 3 checks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r request
			err := r.decode(tt.body, requestFields, 3, 3)
			var input *inputError
			if !errors.As(err, &input) {
				t.Fatalf("%.80s: got %v, want an error about the input", tt.body, err)
			}
			if input.field != tt.field || !strings.Contains(input.detail, tt.said) {
				t.Errorf("%.80s: got %q, %q; want %q, %q", tt.body, input.field, input.detail, tt.field, tt.said)
			}
			if len(err.Error()) > 300 || !utf8.ValidString(err.Error()) {
				t.Errorf("%.80s: the error is too long or invalid UTF-8: %q", tt.body, err)
			}
		})
	}
}

// FuzzDecode compares the decoder with encoding/json: what both accept is equal, and they
// accept different texts only because of a rule of this API.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"limit":"10/s","key":"k"}`, `{"policy":"p","key":"\ud83d\ude00","cost":2}`, `{"checks":[{"limit":"1/s","key":""},{"policy":"p","key":"k"}]}`,
		`{"key":"k","key":"j","limit":"1/s"}`, "{\"key\":\"\xff\",\"limit\":\"1/s\"}", `{"limit":"1/s","key":"k","cost":-0}`,
		`{"limit":"1/s","key":"\ud800","cost":1e3}`, `{"checks":[],"key":null}`, `{"x":[{"y":1.5e9}]} 7`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var r request
		err := r.decode(body, requestFields, 4, 4)
		want, wantOK := plainDecode(body, 4)
		if (err == nil) != wantOK {
			t.Fatalf("%q: decode returns %v, encoding/json with our rules accepts it: %v", body, err, wantOK)
		}
		if err == nil && !slices.Equal(r.checks, want) {
			t.Fatalf("%q: got %+v, want %+v", body, r.checks, want)
		}
	})
}

// plainDecode is decode by encoding/json: slower, and without error texts.
func plainDecode(body string, most int) ([]engine.Check, bool) {
	if !json.Valid([]byte(body)) || !utf8.ValidString(body) || loneSurrogate(body) {
		return nil, false
	}
	top, ok := plainObject([]byte(body))
	if !ok {
		return nil, false
	}
	raw, several := top["checks"]
	if !several {
		c, ok := plainCheck(top)
		return []engine.Check{c}, ok
	}
	var list []json.RawMessage
	if len(top) > 1 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil || len(list) < 1 || len(list) > most {
		return nil, false
	}
	var checks []engine.Check
	for _, raw := range list {
		members, ok := plainObject(raw)
		if !ok {
			return nil, false
		}
		c, ok := plainCheck(members)
		if !ok {
			return nil, false
		}
		checks = append(checks, c)
	}
	return checks, true
}

// plainObject reads the members of an object; duplicates are an error.
func plainObject(raw []byte) (map[string]json.RawMessage, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		if _, twice := members[name.(string)]; twice {
			return nil, false
		}
		members[name.(string)] = value
	}
	return members, true
}

func plainCheck(members map[string]json.RawMessage) (engine.Check, bool) {
	c := engine.Check{Cost: 1}
	for name, raw := range members {
		var into any
		switch name {
		case "policy":
			into = &c.Policy
		case "limit":
			into = &c.Limit
		case "algorithm":
			into = &c.Algorithm
		case "key":
			if digits := strings.TrimPrefix(string(raw), "-"); strings.Trim(digits, "0123456789") == "" {
				c.Key = string(raw)
				continue
			}
			into = &c.Key
		case "cost":
			into = &c.Cost
		default:
			return c, false
		}
		if string(raw) == "null" || json.Unmarshal(raw, into) != nil {
			return c, false
		}
	}
	_, policy := members["policy"]
	_, limit := members["limit"]
	_, algorithm := members["algorithm"]
	_, key := members["key"]
	return c, key && policy != limit && !(policy && (algorithm || c.Policy == ""))
}

// loneSurrogate reports whether a valid JSON text escapes half of a surrogate pair, which
// encoding/json replaces.
func loneSurrogate(body string) bool {
	d := json.NewDecoder(strings.NewReader(body))
	for {
		start := d.InputOffset()
		token, err := d.Token()
		if err != nil {
			return err != io.EOF
		}
		text, ok := token.(string)
		if !ok {
			continue
		}
		raw := strings.ToLower(body[start:d.InputOffset()])
		if strings.Count(text, "\ufffd") > strings.Count(raw, "\ufffd")+strings.Count(raw, `\ufffd`) {
			return true
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	const body = `{"limit":"100/1m","key":"203.0.113.9","cost":1}`
	b.Run("ours", func(b *testing.B) {
		var r request
		b.ReportAllocs()
		for b.Loop() {
			if err := r.decode(body, requestFields, 32, 32); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c struct {
				Policy, Limit, Algorithm, Key string
				Cost                          int64
			}
			d := json.NewDecoder(strings.NewReader(body))
			d.DisallowUnknownFields()
			if err := d.Decode(&c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

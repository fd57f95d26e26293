package httpapi

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// FuzzDecodeHold decodes arbitrary bodies for every operation: a body that is accepted is
// valid JSON with all required fields, and every error names the problem.
func FuzzDecodeHold(f *testing.F) {
	h := engine.ClientHold{Expires: start, Checks: []engine.Check{{Policy: "p", Key: "k", Cost: 1}}}
	for _, body := range []string{
		`{"id":"a","ttl":"30s","policy":"p","key":"k","cost":5}`, `{"ttl":"1h","checks":[{"limit":"1/s","key":7},{"policy":"p","key":""}]}`,
		`{"hold":"` + h.Token() + `","actual":[1,2]}`, `{"holds":["` + h.Token() + `","` + h.Token() + `"],"ttl":"1ms"}`,
		`{"hold":"` + h.Token() + `"}`, `{"hold":"x"}`, `{"actual":[-1,1e9]}`, `{"ttl":30}`, `{"holds":[]}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, o := range operations {
			var r request
			err := r.decode(body, o.accepted, 4, 4)
			var input *inputError
			if err != nil {
				if !errors.As(err, &input) || input.detail == "" || len(input.detail) > 400 || !utf8.ValidString(input.detail) {
					t.Fatalf("%s %q: got %#v want a short error about the input", o.path, body, err)
				}
				continue
			}
			complete := json.Valid([]byte(body)) && (len(r.checks) > 0) == (o.accepted&checksField != 0) &&
				(len(r.holds) > 0) == (o.accepted&(holdField|holdsField) != 0) && (len(r.actual) > 0) == (o.accepted&actualField != 0)
			if !complete {
				t.Fatalf("%s %q: accepted as %+v", o.path, body, r)
			}
		}
	})
}

package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/mutation"
)

// checkBody returns the body of a check on a key.
func checkBody(key string) string {
	text, _ := json.Marshal(key)
	return `{"policy":"login","key":` + string(text) + `}`
}

// TestClientInput: a program passes what its client has chosen as a key, or as a whole
// body. Every response is a decision or an error of the program; a program must not treat
// the latter as allowed.
func TestClientInput(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	for kind, requests := range map[string]map[string][]int{ // statuses of successive requests
		"long": {
			checkBody(strings.Repeat("k", 1024)):                             {200, 200, 200, 200, 200, 429},
			checkBody(strings.Repeat("k", 1025)):                             {400},
			`{"policy":"login","key":"` + strings.Repeat("k", 70_000) + `"}`: {413},
			`{"policy":"` + strings.Repeat("p", 2_000) + `","key":"k"}`:      {404},
			`{"limit":"` + strings.Repeat(" ", 2_000) + `5/1h","key":"k"}`:   {200},
		},
		"binary": {
			"{\"policy\":\"login\",\"key\":\"caf\xe9\"}": {400},
			`{"policy":"login","key":"\ud800"}`:          {400},
			checkBody("\x00\x7f\u0080é"):                 {200, 200, 200, 200, 200, 429},
			"{\"policy\":\"login\",\"key\":\"a\x00b\"}":  {400},
			"\x1f\x8b\x08": {400},
		},
		"many": {
			`{"checks":[` + strings.Repeat(checkBody("m")+",", 32) + checkBody("m") + `]}`: {400},
			`{"checks":[` + strings.Repeat(checkBody("m")+",", 5) + checkBody("m") + `]}`:  {429},
			`{"checks":[]}`:                          {400},
			strings.Repeat("[", 60_000):              {400},
			`{"policy":"login","key":"a","key":"b"}`: {400},
		},
		"malformed": {
			`{"policy":"login","key":"c","cost":-1}`:                  {400},
			`{"policy":"login","key":"c","cost":1e9}`:                 {400},
			`{"policy":"login","key":"c","cost":9223372036854775808}`: {400},
			`{"policy":"login","key":"c","cost":9223372036854775807}`: {429},
			`{"policy":"login","key":5.5}`:                            {400},
			`{"policy":"login"}`:                                      {400},
			`{`:                                                       {400},
			``:                                                        {400},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			for body, statuses := range requests {
				for i, want := range statuses {
					got := s.post("/v1/check", body)
					if isDecision := strings.Contains(got.body, `"allowed":`); got.status != want || isDecision != (want == 200 || want == 429) {
						t.Errorf("%.100q, request %d: got %d %.200s want %d", body, i+1, got.status, got.body, want)
					}
				}
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		if got := s.post("/v1/check", checkBody("another")); got.status != 200 {
			t.Errorf("another client: got %d want 200", got.status)
		}
	})
}

// TestMutatedRequests: no mutated request gets an internal error, or a status 200 without
// a decision.
func TestMutatedRequests(t *testing.T) {
	s := serve(t, nil, nil)
	const limit = `{"limit":"1000000000/1s","key":"polite"}`
	token := forged(headgate.HoldID{1}, headgate.MaxInstant, engine.Check{Policy: "two", Key: "k", Cost: 1})
	(&mutation.Attack{
		Sender: func() func(*rand.Rand) error {
			return func(rng *rand.Rand) error {
				body := checkBody(mutation.Value(rng, "alice", "203.0.113.9"))
				switch rng.IntN(6) {
				case 4:
					body = mutation.Mutate(rng, `{"id":"a","ttl":"1h","checks":[{"policy":"two","key":"k","cost":1}]}`)
				case 5:
					body = mutation.Mutate(rng, `{"hold":"`+token+`","holds":["`+token+`"],"actual":[1],"ttl":"1h"}`)
				case 0:
					body = mutation.Mutate(rng, `{"checks":[{"policy":"two","key":"k","cost":1},{"limit":"5/1m","algorithm":"gcra","key":"k"}]}`)
				case 1:
					body = mutation.Mutate(rng, body)
				}
				path := []string{
					"/v1/check", "/v1/peek", "/v1/refund", "/v1/reset", "/v1/hold", "/v1/commit", "/v1/extend", "/v1/cancel", "/v1/debit", "/v1/take-up-to",
				}[rng.IntN(10)]
				text := mutation.HTTPRequest(rng, "POST", path, body, "Content-Type", "application/json")
				all, err := mutation.Send("", s.addr, text)
				for _, r := range all {
					if r.Status >= 500 && r.Status != 501 && r.Status != 505 || r.Status == 200 && !isAnswer(r.Body) {
						return fmt.Errorf("%.2000q: got %v", text, r)
					}
				}
				return err
			}
		},
		Polite: func() error {
			all, err := mutation.SendComplete("", s.addr, fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(limit), limit))
			if err == nil && (len(all) != 1 || all[0].Status != 200 || !strings.Contains(all[0].Body, `"allowed":true`)) {
				err = fmt.Errorf("got %v want a 200", all)
			}
			return err
		},
	}).Run(t)
}

// isAnswer reports whether the body of a response with status 200 is a decision, or the
// response of another path.
func isAnswer(body string) bool {
	var a struct {
		Allowed *bool           `json:"allowed"`
		Status  string          `json:"status"`
		OpenAPI json.RawMessage `json:"openapi"`
	}
	if body == "" { // HEAD, or OPTIONS *
		return true
	}
	return json.Unmarshal([]byte(body), &a) == nil && (a.Allowed != nil || a.Status != "" || a.OpenAPI != nil)
}

package httpapi_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
)

// result is the result of one check in a response.
type result struct {
	Policy    string    `json:"policy"`
	Allowed   bool      `json:"allowed"`
	Limit     string    `json:"limit"`
	Capacity  int64     `json:"capacity"`
	Remaining int64     `json:"remaining"`
	Retry     int64     `json:"retry_after_ms"`
	Reset     int64     `json:"reset_after_ms"`
	ResetAt   time.Time `json:"reset_at"`
	Denied    bool      `json:"denied"`
	DeniedBy  []string  `json:"denied_by"`
}

// resultsOf returns the results in a body, without the times that depend on the clock,
// after it has compared them.
func resultsOf(t *testing.T, body string) []result {
	t.Helper()
	var a struct{ Results []result }
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for i := range a.Results {
		r := &a.Results[i]
		if wait := time.Until(r.ResetAt); wait > time.Duration(r.Reset+1)*time.Millisecond || r.ResetAt.Location() != time.UTC {
			t.Errorf("reset_at is %v, in %v, reset_after_ms is %d", r.ResetAt, wait, r.Reset)
		}
		r.ResetAt, r.Reset = time.Time{}, (r.Reset+999)/1000*1000
	}
	return a.Results
}

// Each check has a result, in the order of the request.
func TestResults(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	got := s.post("/v1/check", `{"checks":[
		{"limit":"100/1d burst 200","key":"ip"},
		{"policy":"login","key":"ann","cost":3},
		{"policy":"two","key":"ann","cost":1},
		{"limit":"60/365d","algorithm":"sliding_log","key":7,"cost":0}]}`)
	none := []string{}
	want := []result{
		{Allowed: true, Limit: "100/d burst 200", Capacity: 200, Remaining: 199, Reset: 864000, DeniedBy: none},
		{Policy: "login", Allowed: true, Limit: "5/15m", Capacity: 5, Remaining: 2, Reset: 900000, DeniedBy: none},
		{Policy: "two", Allowed: true, Limit: "3/d", Capacity: 3, Remaining: 2, Reset: 86400000, DeniedBy: none},
		{Allowed: true, Limit: "60/365d", Capacity: 60, Remaining: 60, DeniedBy: none},
	}
	if all := resultsOf(t, got.body); got.status != 200 || !reflect.DeepEqual(all, want) {
		t.Errorf("got %d %+v\nwant 200 %+v", got.status, all, want)
	}
}

// The results name the check that denied, also if two checks have the same policy.
func TestResultsOfDenial(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	s.post("/v1/check", `{"policy":"login","key":"ann","cost":4}`)
	got := s.post("/v1/check", `{"checks":[{"policy":"login","key":"bob"},{"policy":"login","key":"ann","cost":2},{"policy":"two","key":"k","cost":4}]}`)
	want := []result{
		{Policy: "login", Allowed: true, Limit: "5/15m", Capacity: 5, Remaining: 5, DeniedBy: []string{}},
		{Policy: "login", Limit: "5/15m", Capacity: 5, Remaining: 1, Retry: 900000, Reset: 900000, Denied: true, DeniedBy: []string{"login"}},
		{Policy: "two", Limit: "3/d", Capacity: 3, Remaining: 3, Denied: true, DeniedBy: []string{"two:3/d"}},
	}
	all := resultsOf(t, got.body)
	for i := range all {
		all[i].Retry = (all[i].Retry + 999) / 1000 * 1000
	}
	if got.status != 429 || !reflect.DeepEqual(all, want) {
		t.Errorf("got %d %+v\nwant 429 %+v", got.status, all, want)
	}
	if !strings.Contains(got.body, `"denied_by":["login","two:3/d"],"degraded"`) {
		t.Errorf("got %s", got.body)
	}
}

// A client selects the status of denials; the body does not change.
func TestDenyStatus(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	const denied, allowed = `{"policy":"login","key":"k","cost":6}`, `{"policy":"login","key":"k"}`
	want := s.post("/v1/peek", denied).body
	for query, status := range map[string]int{
		"": 429, "?deny_status=200": 200, "?deny_status=403": 403, "?deny_status=429": 429, "?deny_status=503": 503, "?x=1&deny_status=403": 403,
	} {
		got := s.post("/v1/peek"+query, denied)
		if got.status != status || resultsOf(t, got.body) == nil || got.body[:80] != want[:80] || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%q: got %d %s want %d %s", query, got.status, got.body, status, want)
		}
		if got := s.post("/v1/peek"+query, allowed); got.status != 200 {
			t.Errorf("%q, allowed: got %d want 200", query, got.status)
		}
	}
	for _, query := range []string{"?deny_status=", "?deny_status=404", "?deny_status=429&deny_status=429", "?deny_status=0200"} {
		got := s.post("/v1/check"+query, allowed)
		if got.status != 400 || !strings.Contains(got.body, "the query parameter deny_status must be 200, 403, 429 or 503") {
			t.Errorf("%q: got %d %s want 400", query, got.status, got.body)
		}
	}
	if got := s.post("/v1/peek", allowed); !strings.Contains(got.body, `"remaining":5,`) {
		t.Errorf("an invalid query has spent units: %s", got.body)
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	s := serve(t, &httpapi.Options{Version: "v1.2.3"}, nil)
	got := s.do("GET", "/", "")
	var about map[string]string
	if err := json.Unmarshal([]byte(got.body), &about); err != nil || got.status != 200 || got.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s, %v", got.status, got.body, err)
	}
	if about["name"] != "headgate" || about["version"] != "v1.2.3" || !strings.HasPrefix(about["documentation"], "https://") {
		t.Errorf("got %v", about)
	}
	for _, name := range []string{"openapi", "check"} {
		if got := s.do("GET", about[name], ""); got.status == 404 {
			t.Errorf("%s: %s does not exist", name, about[name])
		}
	}
	if got := s.do("HEAD", "/", ""); got.status != 200 {
		t.Errorf("HEAD: got %d want 200", got.status)
	}
}

// The reset of a calendar window is its end to the millisecond, not later by the time
// that the answer took.
func TestResetAtIsWindowEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	for _, path := range []string{"/v1/check", "/v1/peek", "/v1/debit"} {
		got := s.post(path, `{"limit":"500/year","key":"k"}`)
		if !strings.Contains(got.body, `-01-01T00:00:00.000Z"`) {
			t.Errorf("%s: got %s want the end of a year", path, got.body)
		}
	}
}

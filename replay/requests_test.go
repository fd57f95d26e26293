package replay_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/replay"
)

// Requests come in time order, with all fields of the log.
func TestEachVisitsAllRequestsInTimeOrder(t *testing.T) {
	t.Parallel()
	access := `203.0.113.9 - ann [10/Oct/2000:13:55:37 -0700] "POST /login?a=b HTTP/1.1" 200 5
198.51.100.4 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 5
`
	lines := `{"ts_us":971211336500000,"key":"a\nb","cost":3}
{"ts_us":971211336600000,"key":"a","op":"reset"}
`
	var got []replay.Request
	report, skipped, err := replay.Each(t.Context(), []replay.Log{textLog("access", access), textLog("lines", lines)}, nil, func(q *replay.Request) error {
		got = append(got, *q)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []replay.Request{
		{At: 971211336000000, Cost: 1, Address: "198.51.100.4", User: "-", Method: "GET", Path: "/"},
		{At: 971211336500000, Cost: 3, Key: "a\nb"},
		{At: 971211337000000, Cost: 1, Address: "203.0.113.9", User: "ann", Method: "POST", Path: "/login"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v want %+v", got, want)
	}
	if got[0].IsJSON() || !got[1].IsJSON() {
		t.Errorf("IsJSON: got %v and %v want false and true", got[0].IsJSON(), got[1].IsJSON())
	}
	for fields, keys := range map[string][]string{"ip": {"198.51.100.4", "a\nb", "203.0.113.9"}, "user+path": {"-+/", "a\nb", "ann+/login"}} {
		k, err := replay.ParseKey(fields)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if made := k.Of(&got[i]); made != keys[i] {
				t.Errorf("%s of request %d: got %q want %q", fields, i, made, keys[i])
			}
		}
	}
	if report.Requests != 4 || skipped != 1 || report.FirstUS != want[0].At || report.LastUS != want[2].At {
		t.Errorf("got %d requests, %d skipped, from %d to %d", report.Requests, skipped, report.FirstUS, report.LastUS)
	}
}

// Requests that do not fit into memory come from the temporary file.
func TestEachUsesATemporaryFile(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	const n = 120_000
	for i := range n {
		fmt.Fprintf(&text, `{"ts_us":%d,"key":"%0200d"}`+"\n", 1_000_000+i, i)
	}
	next := 0
	opts := &replay.Options{Memory: replay.MinMemory, TempDir: t.TempDir()}
	report, _, err := replay.Each(t.Context(), []replay.Log{textLog("lines", text.String())}, opts, func(q *replay.Request) error {
		if want := fmt.Sprintf("%0200d", next); q.Key != want {
			return fmt.Errorf("got key %.40s want %s", q.Key, want)
		}
		next++
		return nil
	})
	if err != nil || next != n || report.Memory.SpilledRuns == 0 {
		t.Errorf("got %d requests, error %v, report %+v; want %d requests with a temporary file", next, err, report, n)
	}
}

func TestEachErrors(t *testing.T) {
	t.Parallel()
	never := func(*replay.Request) error { return nil }
	if _, _, err := replay.Each(t.Context(), []replay.Log{textLog("empty", "")}, nil, never); !errors.Is(err, replay.ErrNothingToReplay) {
		t.Errorf("an empty log: got %v want %v", err, replay.ErrNothingToReplay)
	}
	if _, _, err := replay.Each(t.Context(), nil, &replay.Options{Memory: 1}, never); err == nil {
		t.Error("a memory of 1 byte: got no error")
	}
	stop := errors.New("stop")
	lines := []replay.Log{textLog("lines", `{"ts_us":1000000,"key":"a"}`)}
	if _, _, err := replay.Each(t.Context(), lines, nil, func(*replay.Request) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of visit: got %v want %v", err, stop)
	}
}

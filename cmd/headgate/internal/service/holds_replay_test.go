package service_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/replay"
)

// replayLog has the requests of a timeline as lines of a log for each algorithm, and what
// the library returned for each line.
type replayLog struct {
	lines map[headgate.Algorithm]*strings.Builder
	want  map[headgate.Algorithm][]replayedResult
	holds map[string]*holdAsk // last request that opened a hold, by id
}

// replayedResult is a decision of package replay. Waits are in µs there, and in ms in the
// responses of the service, so they are compared in ms.
type replayedResult struct {
	Allowed    bool   `json:"allowed"`
	Limit      int64  `json:"limit"`
	Remaining  int64  `json:"remaining"`
	RetryAfter int64  `json:"retry_after_us"`
	ResetAfter int64  `json:"reset_after_us"`
	Never      bool   `json:"never"`
	Granted    int64  `json:"granted"`
	Replayed   bool   `json:"replayed"`
	Error      string `json:"error"`
}

// record writes the request q, which got the result r from the library, to the log. A
// peek is not an operation of package replay.
func (d *holders) record(q *holdAsk, r heldResult) {
	if d.replayed == nil || q.op == "peek" {
		return
	}
	opened, l := q, d.replayed
	switch q.op {
	case "commit", "extend", "cancel":
		opened = l.holds[q.id]
	case "hold":
		if r.Allowed {
			l.holds[q.id] = q
		}
	}
	a := opened.algorithms[0]
	if l.lines[a] == nil {
		l.lines[a] = &strings.Builder{}
	}
	name := map[string]string{"check": "take", "take-up-to": "up_to"}[q.op]
	if name == "" {
		name = q.op
	}
	fmt.Fprintf(
		l.lines[a], `{"ts_us":%d,"key":%q,"op":%q,"id":%q,"cost":%d,"actual":%d,"ttl_us":%d}`+"\n",
		d.at, opened.key, name, q.id, q.costs[0], q.costs[0], q.ttl.Microseconds(),
	)
	l.want[a] = append(l.want[a], replayedResult{
		r.Allowed, r.Limit, r.Remaining, r.RetryAfter, r.ResetAfter, r.Never, r.Granted, r.Replayed, r.Error,
	})
}

// TestReplayReturnsSameHold sends one random timeline of operations on holds through the
// library, HTTP, RESP and package replay, one check in each request, because the log of a
// replay has one policy.
func TestReplayReturnsSameHold(t *testing.T) {
	t.Parallel()
	inner := memstore.New(nil)
	t.Cleanup(func() { _ = inner.Close() })
	now := newClock()
	d := newHolders(startAPIs(t, fixedClock{inner, now}))
	d.replayed = &replayLog{map[headgate.Algorithm]*strings.Builder{}, map[headgate.Algorithm][]replayedResult{}, map[string]*holdAsk{}}
	d.playTimeline(t, now)
	for a, lines := range d.replayed.lines {
		compareReplay(t, a, lines.String(), d.replayed.want[a])
	}
}

func compareReplay(t *testing.T, a headgate.Algorithm, log string, want []replayedResult) {
	t.Helper()
	var decisions bytes.Buffer
	logs := []replay.Log{{Name: "timeline", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log)), nil }}}
	open := func() (headgate.Store, error) { return memstore.New(nil), nil }
	if _, err := replay.Run(t.Context(), logs, []headgate.Policy{policyOf(a)}, open, &replay.Options{Decisions: &decisions}); err != nil {
		t.Fatal(err)
	}
	requests, decoder := strings.Split(log, "\n"), json.NewDecoder(&decisions)
	for i := range want {
		var got replayedResult
		if err := decoder.Decode(&got); err != nil {
			t.Fatal(err)
		}
		got.RetryAfter, got.ResetAfter = ms(time.Duration(got.RetryAfter)*time.Microsecond), ms(time.Duration(got.ResetAfter)*time.Microsecond)
		if got.Error != "" { // the service returns no decision with an error
			got = replayedResult{Error: got.Error}
		}
		if got != want[i] {
			t.Fatalf("%s, %s:\n got %+v\nwant %+v", a, requests[i], got, want[i])
		}
	}
}

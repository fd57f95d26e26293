package memcachedstore_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

// oldState is the state of a key that a version without holds wrote, of commit
// 66293585. Under the policy p with the limit 10/h, 3 units were taken of the key at
// oldInstant, and 2 units a second later. The decision is that version's on a peek with
// cost 9 after another second.
type oldState struct {
	Algorithm                         headgate.Algorithm
	Key                               string
	Value                             []byte
	Remaining, RetryAfter, ResetAfter int64
}

var oldInstant = time.Date(2027, 1, 1, 0, 30, 0, 0, time.UTC)

func oldStates(t *testing.T) (all []oldState) {
	t.Helper()
	text, err := os.ReadFile("testdata/before-holds.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) != 6 {
		t.Fatalf("got %d states, error %v want 6", len(all), err)
	}
	return all
}

// check compares the decision with that of the old version, and then holds and commits a
// unit.
func (o *oldState) check(t *testing.T, s headgate.Store) {
	t.Helper()
	l, err := headgate.New(s, headgate.Policy{Name: "p", Algorithm: o.Algorithm, Limits: []headgate.Limit{headgate.MustParseLimit("10/1h")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := oldInstant.Add(2 * time.Second)
	d, err := l.PeekAt(t.Context(), now, "key", 9)
	if err != nil || d.Allowed || d.Remaining != o.Remaining || d.RetryAfter.Microseconds() != o.RetryAfter || d.ResetAfter.Microseconds() != o.ResetAfter {
		t.Errorf("%s: got %+v, error %v, want a denial with %d remaining, retry_after %d and reset_after %d", o.Algorithm, d, err, o.Remaining, o.RetryAfter, o.ResetAfter)
	}
	if !o.Algorithm.CanHold() {
		d, err = l.AllowAt(t.Context(), now, "key", 1)
		if err != nil || !d.Allowed {
			t.Errorf("%s: take: got %+v, error %v", o.Algorithm, d, err)
		}
		return
	}
	h, err := l.HoldAt(t.Context(), now, "key", 3, time.Minute)
	if err != nil || !h.OK() || h.Decision().Remaining != o.Remaining-3 {
		t.Fatalf("%s: hold of 3 units: got %+v, error %v want %d remaining", o.Algorithm, h, err, o.Remaining-3)
	}
	r, err := h.CommitAt(t.Context(), now, 1)
	if err != nil || r.Remaining != o.Remaining-1 {
		t.Errorf("%s: commit of 1 unit: got %+v, error %v want %d remaining", o.Algorithm, r, err, o.Remaining-1)
	}
}

// A state that was written before there were holds is read and kept.
func TestStateOfVersionWithoutHolds(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	for _, o := range oldStates(t) {
		server.Do(t, "flush_all")
		server.Do(t, fmt.Sprintf("set %s 0 5000 %d\r\n%s", o.Key, len(o.Value), o.Value))
		o.check(t, open(t, nil, server.Addr()))
	}
}

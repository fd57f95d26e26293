package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/replay"
	"github.com/headgate/headgate/storetest/model"
)

// TestHoldsEqualModel replays random operations with holds under every algorithm that has
// them and all settings, and compares every decision with the definition.
func TestHoldsEqualModel(t *testing.T) {
	commits := 100_000
	if testing.Short() {
		commits = 2_000
	}
	var algorithms []headgate.Algorithm
	for _, a := range append(model.Algorithms(), headgate.Concurrency) {
		if a.CanHold() {
			algorithms = append(algorithms, a)
		}
	}
	share := commits/(4*len(algorithms)) + 1
	for _, a := range algorithms {
		for _, settings := range []headgate.HoldSettings{
			{OnExpiry: headgate.ReleaseExpired, ExcessPolicy: headgate.OweExcess},
			{OnExpiry: headgate.ReleaseExpired, ExcessPolicy: headgate.ClipExcess},
			{OnExpiry: headgate.KeepExpired, ExcessPolicy: headgate.OweExcess},
			{OnExpiry: headgate.KeepExpired, ExcessPolicy: headgate.ClipExcess},
		} {
			if a.OnlyHolds() {
				settings.OnExpiry = headgate.DefaultExpiry
			}
			t.Run(fmt.Sprint(a, " ", settings.OnExpiry, " ", settings.ExcessPolicy), func(t *testing.T) {
				t.Parallel()
				compareHolds(t, a, settings, share)
			})
		}
	}
}

// compareHolds replays a log with the given number of commits.
func compareHolds(t *testing.T, a headgate.Algorithm, settings headgate.HoldSettings, commits int) {
	limit := headgate.MustParseLimit("40/100ms")
	if a.OnlyHolds() {
		limit = headgate.MustParseLimit("12 concurrent")
	}
	w := newHoldLog(a, limit, settings)
	for w.commits < commits {
		w.step()
	}
	var got bytes.Buffer
	policies := []headgate.Policy{{Limits: []headgate.Limit{limit}, Algorithm: a, Holds: settings}}
	open := func() (headgate.Store, error) { return memstore.New(nil), nil }
	logs := []replay.Log{{Name: "holds", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(w.text.String())), nil }}}
	if _, err := replay.Run(t.Context(), logs, policies, open, &replay.Options{Decisions: &got}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(got.String()), "\n")
	if len(lines) != len(w.want) {
		t.Fatalf("got %d decisions want %d", len(lines), len(w.want))
	}
	for i, line := range lines {
		for _, part := range w.want[i] {
			if !strings.Contains(line, part) {
				t.Fatalf("decision %d\ngot  %s\nwant %s", i+1, line, w.want[i])
			}
		}
	}
}

// holdLog is a random log with holds, and for each line the parts of its decision that
// the model determines.
type holdLog struct {
	*rand.Rand
	limit   headgate.Limit
	text    strings.Builder
	keys    [3]*model.Holds
	ids     []loggedHold
	at      int64
	commits int
	want    [][]string
}

type loggedHold struct {
	id  string
	key int
}

func newHoldLog(a headgate.Algorithm, l headgate.Limit, settings headgate.HoldSettings) *holdLog {
	w := &holdLog{Rand: rand.New(rand.NewPCG(1, 1)), limit: l, at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()}
	for i := range w.keys {
		w.keys[i] = model.NewHolds(a)
		w.keys[i].Release = settings.OnExpiry == headgate.ReleaseExpired || a.OnlyHolds()
		w.keys[i].Clip = settings.ExcessPolicy == headgate.ClipExcess
	}
	return w
}

// step adds one line to the log.
func (w *holdLog) step() {
	w.at += w.Int64N(30_000)
	for _, k := range w.keys {
		k.Begin(w.limit, w.at)
	}
	key, n := w.IntN(len(w.keys)), w.Int64N(5)
	switch verb := w.IntN(40); {
	case verb < 16 || verb >= 36 && w.limit.Concurrent:
		w.hold(key, n)
	case verb < 33:
		w.end(n, verb < 18)
	case verb < 36:
		w.extend()
	default:
		w.plain(key, n)
	}
}

// plain adds an operation that is not one of a hold.
func (w *holdLog) plain(key int, n int64) {
	k := w.keys[key]
	switch w.IntN(9) {
	case 0, 1:
		w.line(key, "debit", `,"cost":%d`, n/3)
		w.expect(k.Debit(w.limit, w.at, n/3))
	case 2, 3:
		w.line(key, "up_to", `,"cost":%d`, 4*n)
		granted, d := k.TakeUpTo(w.limit, w.at, 4*n)
		w.expect(d, fmt.Sprintf(`"granted":%d`, granted))
	case 4, 5:
		w.line(key, "refund", `,"cost":%d`, n)
		w.expect(k.Refund(w.limit, w.at, n))
	case 6:
		w.line(key, "reset", "")
		w.expect(k.Reset(w.limit, w.at))
	default:
		w.line(key, "take", `,"cost":%d`, n)
		w.expect(k.Take(w.limit, w.at, n))
	}
}

func (w *holdLog) line(key int, verb, format string, args ...any) {
	fmt.Fprintf(&w.text, `{"ts_us":%d,"key":"key %d","op":%q`+format+"}\n", append([]any{w.at, key, verb}, args...)...)
}

func (w *holdLog) expect(d headgate.Decision, parts ...string) {
	w.want = append(w.want, append(parts, decisionText(d)))
}

func (w *holdLog) hold(key int, n int64) {
	id, ttl := fmt.Sprint(len(w.ids)), 1000+w.Int64N(150_000)
	w.line(key, "hold", `,"id":%q,"cost":%d,"ttl_us":%d`, id, n, ttl)
	w.expect(w.keys[key].Hold(w.limit, w.at, id, n, w.at+ttl))
	w.ids = append(w.ids, loggedHold{id, key})
}

// pick returns the id of one of the latest holds, and mostly its key.
func (w *holdLog) pick() (id string, key int) {
	if len(w.ids) == 0 {
		return "none", 0
	}
	h := w.ids[max(0, len(w.ids)-1-w.IntN(4))]
	if w.IntN(16) == 0 {
		return h.id, w.IntN(len(w.keys))
	}
	return h.id, h.key
}

// end commits or cancels a hold, which may have ended or may belong to another key.
func (w *holdLog) end(actual int64, cancel bool) {
	id, key := w.pick()
	k := w.keys[key]
	if cancel {
		actual = 0
		w.line(key, "cancel", `,"id":%q`, id)
	} else {
		w.line(key, "commit", `,"id":%q,"actual":%d`, id, actual)
	}
	switch _, ended := k.Ended.Deadline(id, w.at); {
	case k.IsOpen(id):
		w.expect(k.Commit(w.limit, w.at, id, actual))
		w.commits++
	case ended:
		w.expect(k.Key.Peek(w.limit, w.at, 0), `"replayed":true`)
	default:
		w.expect(k.Key.Peek(w.limit, w.at, 0), `_hold"`) // unknown_hold or expired_hold
	}
}

func (w *holdLog) extend() {
	id, key := w.pick()
	k, ttl := w.keys[key], 1000+w.Int64N(150_000)
	w.line(key, "extend", `,"id":%q,"ttl_us":%d`, id, ttl)
	if k.IsOpen(id) {
		k.Extend(id, w.at+ttl)
		w.expect(k.Key.Peek(w.limit, w.at, 0))
	} else {
		w.expect(k.Key.Peek(w.limit, w.at, 0), `_hold"`)
	}
}

func decisionText(d headgate.Decision) string {
	allowed, _ := json.Marshal(d.Allowed)
	return fmt.Sprintf(`"allowed":%s,"limit":%d,"remaining":%d,"retry_after_us":%d,"reset_after_us":%d,`,
		allowed, d.Limit, d.Remaining, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds())
}

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
// them, and compares every decision with the definition.
func TestHoldsEqualModel(t *testing.T) {
	commits := 100_000
	if testing.Short() {
		commits = 2_000
	}
	for _, a := range model.Algorithms() {
		if !a.CanHold() {
			continue
		}
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			limit := headgate.MustParseLimit("40/100ms")
			log, want := holdLog(a, limit, commits/5)
			var got bytes.Buffer
			policies := []headgate.Policy{{Limits: []headgate.Limit{limit}, Algorithm: a, Holds: headgate.HoldSettings{OnExpiry: headgate.ReleaseExpired}}}
			open := func() (headgate.Store, error) { return memstore.New(nil), nil }
			logs := []replay.Log{{Name: "holds", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log)), nil }}}
			if _, err := replay.Run(t.Context(), logs, policies, open, &replay.Options{Decisions: &got}); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(got.String()), "\n")
			if len(lines) != len(want) {
				t.Fatalf("got %d decisions want %d", len(lines), len(want))
			}
			for i, line := range lines {
				if !strings.Contains(line, want[i]) {
					t.Fatalf("decision %d\ngot  %s\nwant %s", i+1, line, want[i])
				}
			}
		})
	}
}

// holdLog returns a log with the given number of commits, and for each line the part of
// its decision that the model determines.
func holdLog(a headgate.Algorithm, l headgate.Limit, commits int) (log string, want []string) {
	r := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	keys := make([]*model.Holds, 3)
	for i := range keys {
		keys[i] = model.NewHolds(a)
		keys[i].Release = true
	}
	var ids []string
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	line := func(key int, verb, format string, args ...any) {
		fmt.Fprintf(&text, `{"ts_us":%d,"key":"key %d","op":%q`+format+"}\n", append([]any{at, key, verb}, args...)...)
	}
	for commits > 0 {
		at += r.Int64N(30_000)
		key, n := r.IntN(len(keys)), r.Int64N(5)
		k := keys[key]
		for _, each := range keys {
			each.Begin(l, at)
		}
		var d headgate.Decision
		switch id := fmt.Sprint(len(ids)); r.IntN(5) {
		case 0:
			line(key, "hold", `,"id":%q,"cost":%d,"ttl_us":%d`, id, n, 100_000)
			d = k.Hold(l, at, id, n, at+100_000)
			ids = append(ids, id)
		case 1:
			line(key, "debit", `,"cost":%d`, n/3)
			d = k.Debit(l, at, n/3)
		case 2:
			line(key, "take", `,"cost":%d`, n)
			d = k.Take(l, at, n)
		default:
			if len(ids) == 0 {
				continue
			}
			id = ids[max(0, len(ids)-1-r.IntN(4))]
			line(key, "commit", `,"id":%q,"actual":%d`, id, n)
			if d = k.Key.Peek(l, at, 0); k.IsOpen(id) {
				d = k.Commit(l, at, id, n)
				commits--
			}
		}
		want = append(want, decisionText(d))
	}
	return text.String(), want
}

func decisionText(d headgate.Decision) string {
	allowed, _ := json.Marshal(d.Allowed)
	return fmt.Sprintf(`"allowed":%s,"limit":%d,"remaining":%d,"retry_after_us":%d,"reset_after_us":%d,`,
		allowed, d.Limit, d.Remaining, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds())
}

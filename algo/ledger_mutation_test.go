package algo_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

const (
	bucket   = headgate.TokenBucket
	interval = headgate.TokenBucketInterval
)

// ledgerMutations are injected bugs in the Lua text of the ledger, and in the functions
// of holds of an algorithm.
var ledgerMutations = []mutation{
	{bucket, "the segment of a hold that ended is not joined with the one before", "    lower_least(before, hold.least, hold.rest)\n", ""},
	{bucket, "the segment of a hold that expired is not joined with the one before", "      lower_least(segment, hold.least, hold.rest)\n", ""},
	{bucket, "the reduction is not limited by the least debt", "      reduction, rest = hold.least, hold.rest\n", ""},
	{bucket, "segments after a corrected hold are not corrected", "    reduce_least(hold, reduction, rest, unit.d)\n", "    if i == first then reduce_least(hold, reduction, rest, unit.d) end\n"},
	{bucket, "the last segment does not limit the reduction", "for i = first, #list do\n    local hold, change", "for i = first, max(first, #list - 1) do\n    local hold, change"},
	{bucket, "the least debt is only that at the beginning", "    lower_least(segment, unleased_debt(l, t))\n", ""},
	{bucket, "the least debt is that of the whole key", "    least, rest = unleased_debt(l, t)\n", "    least, rest = 0, 0\n"},
	{bucket, "the fraction of the reduction is not carried", "reduction, rest = reduction + 1, rest - unit.d", "rest = rest - unit.d"},
	{bucket, "clip charges what is owed", "  if clip and actual > held then\n", "  if false then\n"},
	{bucket, "owe charges what remains", "  if clip and actual > held then\n", "  if actual > held then\n"},
	{bucket, "the whole actual number is charged above the estimate", "h.charge(l.w, l.s, t, actual - held)", "h.charge(l.w, l.s, t, actual)"},
	{bucket, "clip takes more than remains", "min(actual - held, remaining(l, t))", "actual - held"},
	{bucket, "an expired hold is kept although it is released", "if release and has_expired(list, t) then", "if false then"},
	{bucket, "an expired hold is released although it is kept", "if release and has_expired(list, t) then", "if has_expired(list, t) then"},
	{bucket, "holds that have not expired are released, too", "return hold.deadline <= t and hold.units or 0", "return hold.units"},
	{bucket, "a hold is expired 1 µs late", "return hold.deadline <= t\n", "return hold.deadline < t\n"},
	{bucket, "the debt that a changed limit dropped is refunded", "local cut, rest = min(c.cut, reduction), 0", "local cut, rest = 0, 0"},
	{bucket, "two changes of the limit drop only the debt of the first", "  c.cut = c.cut + later.cut\n", ""},
	{bucket, "units are corrected under the present limit", "return l.changes and l.changes[c] or l", "return l"},
	{bucket, "the end of a hold without a correction converts the state", "  elseif actual > held then\n    prepare(l, t)\n", "  else\n    prepare(l, t)\n"},
	{bucket, "a debit of no units converts the state", "  if n == 0 then\n    return\n  end\n  prepare(l, t)\n", "  prepare(l, t)\n"},
	{bucket, "a reset keeps the holds", "    list[i] = nil\n    if lease then", "    if lease or i == 1 then lease = list[i]"},
	{bucket, "a correction makes TAT earlier by whole µs only", "return back(b, s, t, by, rest)", "return back(b, s, t, by, 0)"},

	{interval, "the segment of a hold that ended is not joined with the one before", "    lower_least(before, hold.least, hold.rest)\n", ""},
	{interval, "the reduction is not limited by the least debt", "      reduction, rest = hold.least, hold.rest\n", ""},
	{interval, "segments after a corrected hold are not corrected", "    reduce_least(hold, reduction, rest, unit.d)\n", "    if i == first then reduce_least(hold, reduction, rest, unit.d) end\n"},
	{interval, "tokens that were refilled are owed", "return missing, 0\n", "return b.burst, 0\n"},
	{interval, "a debit owes nothing", "min(missing + n, b.burst + MAX_UNITS)", "min(missing + n, b.burst)"},

	{headgate.FixedWindow, "a later window is corrected", "if count == 0 or charged_at ~= s.a then\n      return s\n    end\n    return count_state(window_end", "if count == 0 then\n      return s\n    end\n    return count_state(window_end"},
	{headgate.FixedWindow, "an expired hold is released although it is kept", "if release and has_expired(list, t) then", "if has_expired(list, t) then"},
	{headgate.FixedWindow, "the estimate is refunded, not the difference", "return hold == own and held - actual or 0", "return hold == own and held or 0"},
	{headgate.CalendarWindow, "a later window is corrected", "if charged_at ~= s.a then", "if false then"},
	{headgate.SlidingWindow, "units of the window before are not corrected", "now.b = now.b - min(n, now.b)", "now.b = now.b"},
	{headgate.SlidingWindow, "units of the window before are corrected in this one", "now.b = now.b - min(n, now.b)", "now.c = now.c - min(n, now.c)"},
	{headgate.SlidingWindow, "units of every earlier window are corrected", "    elseif charged_at == now.a - w.period then\n      now.b = now.b", "    else\n      now.b = now.b"},
	{headgate.SlidingWindow, "a count below 0", "now.c = now.c - min(n, now.c)", "now.c = now.c - n"},
}

// TestLedgerComparisonDetectsMutations checks that the comparison of the two
// implementations of the ledger finds injected bugs.
func TestLedgerComparisonDetectsMutations(t *testing.T) {
	for i, m := range ledgerMutations {
		if testing.Short() && !m.algorithm.Windowed() {
			continue // the bugs in corrections of debts need up to 5,000 traces
		}
		t.Run(string(m.algorithm)+"/"+m.mistake, func(t *testing.T) {
			t.Parallel()
			a := mustNamed(t, m.algorithm)
			text := luaHoldsText(a)
			if got := strings.Count(text, m.old); got != 1 {
				t.Fatalf("%q occurs %d times in the text, want once", m.old, got)
			}
			mustDetect(t, a, strings.Replace(text, m.old, m.new, 1), cmp.Or(fastStreams[m.mistake], uint64(1100+i)))
		})
	}
}

// mustDetect fails unless the comparison of written or random traces finds a
// difference between the Go implementation and the Lua text.
func mustDetect(t *testing.T, a algo.Algorithm, text string, stream uint64) {
	t.Helper()
	d, mutant := newGenerator(*seedFlag, stream), newLuaHoldsOf(t, text)
	if compareWrittenTraces(a, mutant) != "" {
		t.Log("found in a written trace")
		return
	}
	for trace := range 20_000 {
		if _, difference := compareHoldTrace(a, d, mutant); difference != "" {
			t.Logf("found in trace %d", trace+1)
			return
		}
	}
	t.Error("the injected bug was not found")
}

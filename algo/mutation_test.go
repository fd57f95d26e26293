package algo_test

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// mutation is an injected bug: it replaces old, which occurs once in the text, by new.
type mutation struct {
	algorithm headgate.Algorithm // the comparison of this algorithm must find it
	mistake   string
	old, new  string
}

var mutations = []mutation{
	{headgate.TokenBucket, "wrong limb base", "r * 128 + digit * b", "r * 64 + digit * b"},
	{headgate.TokenBucket, "the lowest limb is forgotten", "until place == 0", "until place == 1"},
	{headgate.TokenBucket, "a product past 2^53 is not taken apart", "if a * b < EXACT then", "if a * b < 2 * EXACT then"},
	{headgate.TokenBucket, "floor for ceil", "  if a % b > 0 then\n    q = q + 1\n  end\n", ""},
	{headgate.TokenBucket, "a whole part is dropped", "local whole = a * floor(b / m)", "local whole = 0"},
	{headgate.TokenBucket, "< for <= at exact capacity", "past == 0 and r > b.full_r", "past == 0 and r >= b.full_r"},
	{headgate.TokenBucket, "one µs too many admits", "if past > 0 or", "if past > 1 or"},
	{headgate.TokenBucket, "a dropped remainder", "  r = rest + r\n", ""},
	{headgate.TokenBucket, "a carry that is not carried", "past, r = past + 1, r - b.d", "r = r - b.d"},
	{headgate.TokenBucket, "the remainder of TAT forgotten in remaining", "units_in(b, s.a - t, s.b)", "units_in(b, s.a - t, 0)"},
	{headgate.TokenBucket, "retry_after rounded down", "  if r > b.full_r then\n    past = past + 1\n  end\n", ""},
	{headgate.TokenBucket, "reset_after rounded down", "    return s.a + 1\n", "    return s.a\n"},
	{headgate.TokenBucket, "a changed limit's TAT rounded down", "if s.b > 0 then\n    a = a + 1", "if s.b > 0 then\n    a = a + 0"},
	{headgate.TokenBucket, "a changed limit refills", "a, r = t + b.full, b.full_r", "a, r = t, 0"},
	{headgate.TokenBucket, "a denial under a changed limit converts the state", "past > 0 or (past == 0 and r > b.full_r) then\n    return s, false", "past > 0 or (past == 0 and r > b.full_r) then\n    return carry_over(b, s, t), false"},
	{headgate.TokenBucket, "a refund before now", "if a < t then\n    a, r = t, 0", "if a < t - 1 then\n    a, r = t, 0"},
	{headgate.TokenBucket, "a borrow that is not borrowed", "a, r = a - 1, r + b.d", "r = r + b.d"},
	{headgate.TokenBucket, "a delay as long as the longest refused", "held > max_delay or", "held >= max_delay or"},
	{headgate.TokenBucket, "cancel refunds a due reservation", "n == 0 or due(b, reserved, t, n) then", "n == 0 then"},
	{headgate.TokenBucket, "cancel after a later reservation", "not same(s, reserved) or ", ""},
	{headgate.TokenBucket, "a state beyond 2^53", "past >= MAX_EXACT - b.full - t then", "past >= EXACT - b.full - t + 1 then"},

	{headgate.TokenBucket, "undo refunds the time of a full bucket", "whole = whole - (t - t0)\n", "whole = whole - 0\n"},
	{headgate.TokenBucket, "undo of what another limit took", "or s.c ~= b.fingerprint or s.a < t", "or s.a < t"},
	{headgate.TokenBucket, "undo of what is promised", " or ahead > 0 or (ahead == 0 and s.b > b.full_r) then", " then"},
	{headgate.TokenBucket, "undo of what is promised within a µs", "(ahead == 0 and s.b > b.full_r)", "(ahead == 0 and s.b > b.full_r + 1)"},
	{headgate.TokenBucket, "undo after the clock went back", "t < t0 or s.c", "s.c"},
	{headgate.TokenBucket, "undo forgets that nobody came", "return was\n", "return s\n"},

	{headgate.LeakyBucket, "undo of what is promised", "b.leaky or t < t0", "t < t0"},
	{headgate.LeakyBucket, "delay rounded down", "if s.b > r then", "if s.b > r + b.d then"},
	{headgate.LeakyBucket, "delay with what was just spent", "local d = s.a - t - whole", "local d = s.a - t"},
	{headgate.LeakyBucket, "no flag", "b.leaky = true", "b.leaky = false"},

	{headgate.TokenBucketInterval, "refill before the interval's end", "floor((t - last) / b.interval)", "floor((t - last + 1) / b.interval)"},
	{headgate.TokenBucketInterval, "the phase is lost", "last = last + k * b.interval", "last = t"},
	{headgate.TokenBucketInterval, "a full bucket keeps its phase", "return t, 0", "return last, 0"},
	{headgate.TokenBucketInterval, "a full bucket is full one interval late", "if k >= ceil_div(missing, b.rate)", "if k > ceil_div(missing, b.rate)"},
	{headgate.TokenBucketInterval, "off by one at the last token", "if n > b.burst - missing then\n    return s, false", "if n >= b.burst - missing then\n    return s, false"},
	{headgate.TokenBucketInterval, "more is owed than may be", "missing - b.burst > MAX_UNITS", "missing - b.burst > MAX_UNITS + 1"},
	{headgate.TokenBucketInterval, "a refund above B", "missing - min(n, missing))\nend\n\n-- undo", "missing - n)\nend\n\n-- undo"},
	{headgate.TokenBucketInterval, "another limit's tokens above B", "min(s.b - 1, b.burst)", "(s.b - 1)"},
	{headgate.TokenBucketInterval, "what another limit owed is not bounded", "if s.c > 0 then", "if s.c < 0 then"},
	{headgate.TokenBucketInterval, "undo after a refill", "s.a - after.a >= b.interval", "s.a - after.a > b.interval"},
	{headgate.TokenBucketInterval, "undo keeps the intervals that the take began", "last = max(last, t)\n", "last = last\n"},
	{headgate.TokenBucketInterval, "undo moves the intervals back", "last = max(last, t)\n", "last = t\n"},
	{headgate.TokenBucketInterval, "undo of more than is missing", "or n > missing or s.a", "or s.a"},
	{headgate.TokenBucketInterval, "undo in front of a debt", "or s.c > 0 or n == 0 or n > missing", "or n == 0 or n > missing"},

	{headgate.FixedWindow, "undo in another window", "s.a == after.a and count >= n", "count >= n"},
	{headgate.FixedWindow, "undo below 0", "s.a == after.a and count >= n", "s.a == after.a"},
	{headgate.FixedWindow, "<= for < at the window's boundary", "s.a <= window_end - w.period", "s.a < window_end - w.period"},
	{headgate.FixedWindow, "off by one at the limit", "if n > w.limit - count then", "if n >= w.limit - count then"},
	{headgate.FixedWindow, "the high bits of the count forgotten", "s.b + s.c % HIGH * LOW", "s.b"},
	{headgate.FixedWindow, "a later window forgotten", "  window_end = ends_at(w, s)\n  return window_end, window_end, count", "  return window_end, window_end, 0"},
	{headgate.FixedWindow, "another period's end", "return ceil_div(s.a, w.period) * w.period", "return s.a"},
	{headgate.FixedWindow, "a refund below 0", "count - min(n, count)", "count - n"},

	{headgate.CalendarWindow, "<= for < at the window's end", "w.boundaries[i] <= t and t < w.boundaries[i + 1]", "w.boundaries[i] <= t and t <= w.boundaries[i + 1]"},
	{headgate.CalendarWindow, "another window's count", "count == 0 or s.a == window_begin", "count == 0 or s.a <= t"},
	{headgate.CalendarWindow, "a later window forgotten", "elseif s.a > t then", "elseif s.a > t + w.longest then"},
	{headgate.CalendarWindow, "a later window's end", "return s.a, end_of(w, s), count", "return s.a, window_end, count"},

	{headgate.SlidingLog, "<= for < as a unit ages out", "log[i].at <= before", "log[i].at < before"},
	{headgate.SlidingLog, "a unit before the newest", "t <= newest.at", "t < newest.at"},
	{headgate.SlidingLog, "back in time", "newest.at = max(t, newest.at)", "newest.at = t"},
	{headgate.SlidingLog, "retry_after one unit early", "until n <= 0", "until n <= 1"},
	{headgate.SlidingLog, "a refund of the whole entry", "newest.units = newest.units - n\n      return", "newest.units = newest.units\n      return"},
	{headgate.SlidingLog, "retry_after ignores aged-out units", "aged + counted + asked", "counted + asked"},
	{headgate.SlidingLog, "no room forgotten", "or not room", ""},
	{headgate.SlidingLog, "undo of the entry before", "entry.at ~= instant or ", ""},
	{headgate.SlidingLog, "undo of the newest alone", "while i > 0 and log[i].at > instant do", "while i > #log do"},
	{headgate.SlidingLog, "undo of more than is there", " or entry.units < n then", " then"},
	{headgate.SlidingLog, "undo leaves an entry of nothing", "if entry.units == 0 then", "if entry.units < 0 then"},

	{headgate.SlidingWindow, "undo two windows on", "s.a == after.a + w.period and s.b >= n", "s.b >= n"},
	{headgate.SlidingWindow, "undo of cur only", "s.a == after.a + w.period and", "s.a == after.a + 2 * w.period and"},
	{headgate.SlidingWindow, "undo of more than cur", "s.a == after.a and s.c >= n", "s.a == after.a"},
	{headgate.SlidingWindow, "a fraction buys a unit", "mul_div_ceil(s.b, left, w.period)", "mul_div(s.b, left, w.period)"},
	{headgate.SlidingWindow, "a stale previous window", "s.a <= window_end - 2 * w.period", "s.a < window_end - 2 * w.period"},
	{headgate.SlidingWindow, "the previous window is not the last one", "{a = window_end, b = s.c, c = 0}", "{a = window_end, b = s.b, c = 0}"},
	{headgate.SlidingWindow, "the clock went back and more counts", "min(s.a - t, w.period)", "s.a - t"},
	{headgate.SlidingWindow, "< for <= in retry_after", "if s.c + n <= w.limit then", "if s.c + n < w.limit then"},
	{headgate.SlidingWindow, "a refund of prev first", "min(n, now.c)", "min(n, max(0, now.c - 1))"},
	{headgate.SlidingWindow, "reset_at one window early", "return ends_at(w, s.a) + w.period", "return ends_at(w, s.a)"},
}

// fastStreams are streams of random numbers that find an injected bug in a few steps or
// traces. Other streams need up to a million steps, or thousands of traces, for these
// bugs.
var fastStreams = map[string]uint64{
	"a state beyond 2^53":                  2048,
	"undo of what is promised within a µs": 2021,
	"more is owed than may be":             2045,

	"two changes of the limit drop only the debt of the first": 2116,
	"the fraction of the reduction is not carried":             2100,
}

// holdsText matches the functions of holds, which the comparison does not call.
var holdsText = regexp.MustCompile(`(?s)-- holds returns the functions.*?\n  return h\nend\n`)

// TestComparisonDetectsMutations checks that the comparison finds injected bugs,
// so that no reported difference means something.
func TestComparisonDetectsMutations(t *testing.T) {
	const most = 2_000_000
	for i, m := range mutations {
		t.Run(string(m.algorithm)+"/"+m.mistake, func(t *testing.T) {
			t.Parallel()
			a, err := algo.Named(m.algorithm)
			if err != nil {
				t.Fatal(err)
			}
			text := algo.Arithmetic() + algo.LuaLocal("x", a.Lua)
			decisions := holdsText.ReplaceAllString(text, "")
			if got := strings.Count(decisions, m.old); got != 1 {
				t.Fatalf("%q stands %d times in the text, want once", m.old, got)
			}
			mutant, err := newLuaStepper(a, func(vm *lua.LState) (*lua.LFunction, error) {
				return vm.LoadString(strings.Replace(decisions, m.old, m.new, 1) + driverOf(a))
			})
			if err != nil {
				t.Fatalf("the mutant does not load: %v", err)
			}
			seen, difference := compare(a, mutant, newGenerator(*seedFlag, cmp.Or(fastStreams[m.mistake], uint64(1000+i))), most)
			if difference == "" {
				t.Errorf("%q for %q was not found in %d steps", m.new, m.old, seen.steps)
			}
			t.Log(fmt.Sprintf("found at step %d: ", seen.steps), difference)
		})
	}
}

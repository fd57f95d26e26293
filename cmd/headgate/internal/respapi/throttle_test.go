package respapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func newThrottle(t testing.TB) (*client, *frozen) {
	f := newFrozen(t)
	return New(mustEngine(t, f, nil), nil).newClient(t), f
}

// TestThrottleRepliesLikeRedisCell has replies from the documentation, tests and
// arithmetic of redis-cell. Each case has its own key; the requests before the last one
// prepare the state.
func TestThrottleRepliesLikeRedisCell(t *testing.T) {
	for _, tt := range []struct {
		name  string
		asked []string // the arguments behind the key
		want  []int64
	}{
		{"the first", []string{"15 30 60"}, []int64{0, 16, 15, -1, 2}},
		{"a first of quantity 1", []string{"15 30 60 1"}, []int64{0, 16, 15, -1, 2}},
		{"no burst", []string{"0 1 2"}, []int64{0, 1, 0, -1, 2}},
		{"no burst, again", []string{"0 1 2", "0 1 2"}, []int64{1, 1, 0, 2, 2}},
		{"the second", []string{"15 30 60", "15 30 60"}, []int64{0, 16, 14, -1, 4}},
		{"quantity 0 on a fresh key", []string{"15 30 60 0"}, []int64{0, 16, 16, -1, 0}},
		{"quantity 0 on an exhausted key", []string{"4 1 1 5", "4 1 1 0"}, []int64{0, 5, 0, -1, 5}},
		{"quantity above the limit on a fresh key", []string{"4 1 1 6"}, []int64{1, 5, 5, -1, 0}},
		{"quantity above the limit on a used key", []string{"4 1 1 3", "4 1 1 6"}, []int64{1, 5, 2, -1, 3}},
		{"quantity above what is left", []string{"4 1 1 3", "4 1 1 5"}, []int64{1, 5, 2, 3, 3}},
		{"the whole limit at once", []string{"4 1 1 5"}, []int64{0, 5, 0, -1, 5}},
		{"the sixth of five", []string{"4 1 1", "4 1 1", "4 1 1", "4 1 1", "4 1 1", "4 1 1"}, []int64{1, 5, 0, 1, 5}},
		{"a denial changes nothing", []string{"4 1 1 5", "4 1 1", "4 1 1", "4 1 1 0"}, []int64{0, 5, 0, -1, 5}},
		{"quantity −2 on an exhausted key", []string{"4 1 1 5", "4 1 1 -2"}, []int64{0, 5, 2, -1, 3}},
		{"what was given back can be spent", []string{"4 1 1 5", "4 1 1 -2", "4 1 1 2"}, []int64{0, 5, 0, -1, 5}},
		{"not more is given back than was spent", []string{"4 1 1 1", "4 1 1 -2"}, []int64{0, 5, 5, -1, 0}},
		{"nothing is given back to a fresh key", []string{"4 1 1 -2"}, []int64{0, 5, 5, -1, 0}},
		{"nor does it stay", []string{"4 1 1 -2", "4 1 1 6"}, []int64{1, 5, 5, -1, 0}},
		{"the least quantity", []string{"4 1 1 5", "4 1 1 -9223372036854775808"}, []int64{0, 5, 5, -1, 0}},
		{"the largest quantity", []string{"4 1 1 9223372036854775807"}, []int64{1, 5, 5, -1, 0}},
		{"a plus, and zeros in front", []string{"+15 030 +60 +1"}, []int64{0, 16, 15, -1, 2}},
		{"−0", []string{"-0 1 2 -0"}, []int64{0, 1, 1, -1, 0}},
		{"other limits keep what was spent", []string{"4 1 1 5", "9 1 1"}, []int64{0, 10, 4, -1, 6}},
		{"other periods keep what was spent", []string{"4 1 1 5", "4 1 10"}, []int64{0, 5, 3, -1, 15}},
		{"a smaller limit is at most exhausted", []string{"99 1 1 100", "0 1 2"}, []int64{1, 1, 0, 2, 2}},
		{"a denial under another limit changes nothing", []string{"4 5 86400 5", "99 100 1", "99 100 1 100", "99 100 1 101", "4 5 86400"}, []int64{1, 5, 0, 17280, 86400}},
		{"max_burst −1 is a limit of nothing", []string{"-1 1 1"}, []int64{1, 0, 0, -1, 0}},
		{"max_burst −1, quantity 0", []string{"-1 1 1 0"}, []int64{0, 0, 0, -1, 0}},
		{"max_burst −5", []string{"-5 1 1"}, []int64{1, -4, 0, -1, 0}},
		{"max_burst −5, quantity 0", []string{"-5 1 1 0"}, []int64{1, -4, 0, -1, 0}},
		{"the least max_burst", []string{"-9223372036854775808 1 1"}, []int64{1, -9223372036854775807, 0, -1, 0}},
		{"the largest of all", []string{"999999999 1000000000 1"}, []int64{0, 1e9, 1e9 - 1, -1, 0}},
		{"the largest rate is exact", []string{"0 1000000000 1"}, []int64{0, 1, 0, -1, 0}},
		{"700,000,000 a second, which whole nanoseconds let through at 10^9", []string{"699999999 700000000 1 700000000"}, []int64{0, 7e8, 0, -1, 1}},
		{"the longest period", []string{"0 1 31622400"}, []int64{0, 1, 0, -1, 31622400}},
		{"a hundred years to fill", []string{"99 1 31557600 100"}, []int64{0, 100, 0, -1, 3155760000}},
		{"seconds round up from a millisecond on", []string{"0 1000 1", "0 1000 1"}, []int64{1, 1, 0, 1, 1}},
		{"seconds round down below", []string{"0 1002 1", "0 1002 1"}, []int64{1, 1, 0, 0, 0}},
		{"999.001 µs are 1 ms, as waits round up to a µs", []string{"0 1001 1", "0 1001 1"}, []int64{1, 1, 0, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := newThrottle(t)
			var got string
			for _, asked := range tt.asked {
				got = c.do(append([]string{"CL.THROTTLE", "k"}, words(asked)...)...)
			}
			if want := numbersReply(tt.want...); got != want {
				t.Errorf("%q: got %q, want %q", tt.asked, got, want)
			}
		})
	}
}

// TestThrottleOverTime is the table of redis-cell's unit tests: one key, a burst of
// five, one a second.
func TestThrottleOverTime(t *testing.T) {
	c, f := newThrottle(t)
	for i, tt := range []struct {
		at       time.Duration
		quantity int
		want     []int64 // with the table's waits in whole seconds, rounded up
	}{
		{0, 6, []int64{1, 5, 5, -1, 0}},
		{0, 1, []int64{0, 5, 4, -1, 1}},
		{0, 1, []int64{0, 5, 3, -1, 2}},
		{0, 1, []int64{0, 5, 2, -1, 3}},
		{0, 1, []int64{0, 5, 1, -1, 4}},
		{0, 1, []int64{0, 5, 0, -1, 5}},
		{0, 1, []int64{1, 5, 0, 1, 5}},
		{3000 * time.Millisecond, 1, []int64{0, 5, 2, -1, 3}},
		{3100 * time.Millisecond, 1, []int64{0, 5, 1, -1, 4}},
		{4000 * time.Millisecond, 1, []int64{0, 5, 1, -1, 4}},
		{8000 * time.Millisecond, 1, []int64{0, 5, 4, -1, 1}},
		{9500 * time.Millisecond, 1, []int64{0, 5, 4, -1, 1}},
		{9500 * time.Millisecond, 0, []int64{0, 5, 4, -1, 1}},
		{9500 * time.Millisecond, 2, []int64{0, 5, 2, -1, 3}},
		{9500 * time.Millisecond, 5, []int64{1, 5, 2, 3, 3}},
		{9501 * time.Millisecond, 5, []int64{1, 5, 2, 3, 3}},
		{9500*time.Millisecond + 1001*time.Microsecond, 5, []int64{1, 5, 2, 3, 3}},
		{10499*time.Millisecond + time.Microsecond, 5, []int64{1, 5, 2, 2, 2}}, // 2.000999 s
		{10499 * time.Millisecond, 5, []int64{1, 5, 2, 3, 3}},                  // 2.001 s
		{12500 * time.Millisecond, 5, []int64{0, 5, 0, -1, 5}},
	} {
		f.at(tt.at)
		got := c.do("CL.THROTTLE", "foo", "4", "1", "1", fmt.Sprint(tt.quantity))
		if want := numbersReply(tt.want...); got != want {
			t.Errorf("case %d, %d at %v: got %q, want %q", i, tt.quantity, tt.at, got, want)
		}
	}
}

func TestThrottleErrorsLikeRedisCell(t *testing.T) {
	usage := "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	for _, tt := range []struct{ asked, want string }{
		{"", usage},
		{"k", usage},
		{"k 15", usage},
		{"k 15 30", usage},
		{"k 15 30 60 1 1", usage},
		{"k x 30 60", "Couldn't parse as integer: x"},
		{"k 15 30.0 60", "Couldn't parse as integer: 30.0"},
		{"k 15 30 1e3", "Couldn't parse as integer: 1e3"},
		{"k 15 30 60 one", "Couldn't parse as integer: one"},
		{"k 15 30 60 -", "Couldn't parse as integer: -"},
		{"k 15 30 60 --1", "Couldn't parse as integer: --1"},
		{"k 9223372036854775808 30 60", "Couldn't parse as integer: 9223372036854775808"},
		{"k 15 -9223372036854775809 60", "Couldn't parse as integer: -9223372036854775809"},
		{"k 15 30 60 99999999999999999999999999", "Couldn't parse as integer: 99999999999999999999999999"},
		{"k x 0 0", "Couldn't parse as integer: x"},
		{"k 15 0 60", "Zero rates are not supported"},
		{"k 15 30 0", "Zero rates are not supported"},
		{"k 15 0 0", "Zero rates are not supported"},
		{"k -1 0 60", "Zero rates are not supported"},
		{"k 1000000000 30 60", "max_burst is 1000000000; must be at most 999999999"},
		{"k 9223372036854775807 30 60", "max_burst is 9223372036854775807; must be at most 999999999"},
		{"k 15 1000000001 60", "count per period is 1000000001; must be 1 to 1000000000"},
		{"k 15 -1 60", "count per period is -1; must be 1 to 1000000000"},
		{"k 15 30 31622401", "period is 31622401; must be 1 to 31622400"},
		{"k 15 30 9223372036854775807", "period is 9223372036854775807; must be 1 to 31622400"},
		{"k 15 30 -60", "period is -60; must be 1 to 31622400"},
		{"k 100 1 31557600", "fill time is 101·8766h/1; must be at most 100 years; it is capacity·period/rate"},
		{strings.Repeat("k", 1025) + " 15 30 60", "invalid request: the key has 1025 bytes; must be at most 1024"},
	} {
		c, _ := newThrottle(t)
		got := c.do(append([]string{"cl.throttle"}, words(tt.asked)...)...)
		if want := "-Cell error: Store error: " + tt.want + "\r\n"; got != want {
			t.Errorf("%.40q: got %q, want %q", tt.asked, got, want)
		}
		if got := c.do("PING"); got != "+PONG\r\n" {
			t.Errorf("after %.40q: PING got %q", tt.asked, got)
		}
	}
}

// TestThrottleErrorsAreSanitized: an empty argument, spaces and terminal escape
// sequences are not numbers, and errors repeat them without control characters.
func TestThrottleErrorsAreSanitized(t *testing.T) {
	c, _ := newThrottle(t)
	for _, tt := range []struct{ arg, want string }{
		{"", ""},
		{" 1", " 1"},
		{"1\r\n+OK", "1??+OK"},
		{"\x1b[2J", "?[2J"},
		{"\xff1", "?1"},
		{strings.Repeat("9", 100), strings.Repeat("9", 64) + "…"},
	} {
		want := "-Cell error: Store error: Couldn't parse as integer: " + tt.want + "\r\n"
		if got := c.do("CL.THROTTLE", "k", tt.arg, "1", "1"); got != want {
			t.Errorf("%.20q: got %q, want %q", tt.arg, got, want)
		}
	}
}

func TestThrottleRepliesLikeThrottlecrab(t *testing.T) {
	for _, tt := range []struct {
		name  string
		asked []string
		want  []int64 // allowed, limit, remaining, reset_after, retry_after
	}{
		{"the first", []string{"10 100 60"}, []int64{1, 10, 9, 0, 0}},
		{"five at once", []string{"10 100 60 5"}, []int64{1, 10, 5, 3, 0}},
		{"the fourth of three", []string{"3 1 60", "3 1 60", "3 1 60", "3 1 60"}, []int64{0, 3, 0, 180, 60}},
		{"seconds round down", []string{"1 2 3", "1 2 3"}, []int64{0, 1, 0, 1, 1}},
		{"quantity 0 on an exhausted key", []string{"3 1 60 3", "3 1 60 0"}, []int64{1, 3, 0, 180, 0}},
		{"quantity above the limit", []string{"10 100 60 15"}, []int64{0, 10, 10, 0, 0}},
		{"the largest max_burst", []string{"1000000000 1000000000 1"}, []int64{1, 1e9, 1e9 - 1, 0, 0}},
		{"other limits keep what was spent", []string{"10 10 10 10", "5 10 10"}, []int64{0, 5, 0, 5, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := newThrottle(t)
			var got string
			for _, asked := range tt.asked {
				got = c.do(append([]string{"THROTTLE", "k"}, words(asked)...)...)
			}
			if want := numbersReply(tt.want...); got != want {
				t.Errorf("%q: got %q, want %q", tt.asked, got, want)
			}
		})
	}
}

func TestThrottleErrorsLikeThrottlecrab(t *testing.T) {
	c, _ := newThrottle(t)
	for _, tt := range []struct{ asked, want string }{
		{"", "ERR wrong number of arguments for 'throttle' command"},
		{"k 10 100", "ERR wrong number of arguments for 'throttle' command"},
		{"k 10 100 60 1 1", "ERR wrong number of arguments for 'throttle' command"},
		{"k x 100 60", "ERR invalid max_burst"},
		{"k 10 x 60", "ERR invalid count_per_period"},
		{"k 10 100 x", "ERR invalid period"},
		{"k 10 100 60 x", "ERR invalid quantity"},
		{"k 10 100 60 -1", "ERR Rate limit check failed: negative quantity: -1"},
		{"k 0 100 60", "ERR Rate limit check failed: invalid rate limit parameters"},
		{"k -1 100 60", "ERR Rate limit check failed: invalid rate limit parameters"},
		{"k 10 0 60", "ERR Rate limit check failed: invalid rate limit parameters"},
		{"k 10 100 0", "ERR Rate limit check failed: invalid rate limit parameters"},
		{"k 1000000001 100 60", "ERR Rate limit check failed: max_burst is 1000000001; must be at most 1000000000"},
		{"k 10 1000000001 60", "ERR Rate limit check failed: count per period is 1000000001; must be 1 to 1000000000"},
		{"k 10 100 31622401", "ERR Rate limit check failed: period is 31622401; must be 1 to 31622400"},
	} {
		got := c.do(append([]string{"throttle"}, words(tt.asked)...)...)
		if want := "-" + tt.want + "\r\n"; got != want {
			t.Errorf("%q: got %q, want %q", tt.asked, got, want)
		}
	}
}

// TestCommandsHaveSeparateState: each command has one state for a key, whatever the
// limit.
func TestCommandsHaveSeparateState(t *testing.T) {
	c, _ := newThrottle(t)
	exhausted := numbersReply(1, 1, 0, 60, 60)
	c.do("CL.THROTTLE", "k", "0", "1", "60")
	if got := c.do("CL.THROTTLE", "k", "0", "1", "60"); got != exhausted {
		t.Fatalf("got %q, want %q", got, exhausted)
	}
	if got, want := c.do("THROTTLE", "k", "1", "1", "60"), numbersReply(1, 1, 0, 60, 0); got != want {
		t.Errorf("THROTTLE of the key: got %q, want %q", got, want)
	}
	if got, want := c.do("CL.THROTTLE", "K", "0", "1", "60"), numbersReply(0, 1, 0, -1, 60); got != want {
		t.Errorf("another key: got %q, want %q", got, want)
	}
}

func TestRedisCellSeconds(t *testing.T) {
	for _, tt := range []struct {
		wait time.Duration
		want int64
	}{
		{0, 0},
		{time.Microsecond, 0},
		{999 * time.Microsecond, 0},
		{time.Millisecond, 1},
		{time.Second, 1},
		{time.Second + 999*time.Microsecond, 1},
		{time.Second + time.Millisecond, 2},
		{headgate.MaxFillTime, 3155760000},
	} {
		if got := redisCellSeconds(tt.wait); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.wait, got, tt.want)
		}
	}
}

// TestPeekChangesNothing: not even with a limit that is smaller than what was spent under
// another limit.
func TestPeekChangesNothing(t *testing.T) {
	c := New(mustEngine(t, newFrozen(t), nil), nil).newClient(t)
	for _, tt := range []struct {
		command           string
		spent, asked, now []int64
	}{
		{"CL.THROTTLE", []int64{0, 16, 6, -1, 20}, []int64{0, 3, 0, -1, 3}, []int64{0, 16, 6, -1, 20}},
		{"THROTTLE", []int64{1, 15, 5, 20, 0}, []int64{1, 2, 0, 2, 0}, []int64{1, 15, 5, 20, 0}},
	} {
		for _, step := range []struct {
			args string
			want []int64
		}{{"k 15 30 60 10", tt.spent}, {"k 2 60 60 0", tt.asked}, {"k 15 30 60 0", tt.now}} {
			if got, want := c.do(words(tt.command+" "+step.args)...), numbersReply(step.want...); got != want {
				t.Errorf("%s %s: got %q, want %q", tt.command, step.args, got, want)
			}
		}
	}
}

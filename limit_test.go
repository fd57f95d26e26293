package headgate_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

const day = 24 * time.Hour

func TestParseLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		want    headgate.Limit
		printed string // if it differs from the text
	}{
		{"10/s", headgate.Limit{Rate: 10, Period: time.Second}, ""},
		{"100/1m", headgate.Limit{Rate: 100, Period: time.Minute}, "100/m"},
		{"1000/24h", headgate.Limit{Rate: 1000, Period: day}, "1000/d"},
		{"5/15m burst 20", headgate.Limit{Rate: 5, Period: 15 * time.Minute, Burst: 20}, ""},
		{"100/1m queue 50", headgate.Limit{Rate: 100, Period: time.Minute, Queue: 50}, "100/m queue 50"},
		{"7/w", headgate.Limit{Rate: 7, Period: 7 * day}, ""},
		{"1/366d", headgate.Limit{Rate: 1, Period: headgate.MaxPeriod}, ""},
		{"1/52w", headgate.Limit{Rate: 1, Period: 364 * day}, ""},
		{"1/8784h", headgate.Limit{Rate: 1, Period: headgate.MaxPeriod}, "1/366d"},
		{"1/ms", headgate.Limit{Rate: 1, Period: time.Millisecond}, ""},
		{"3/1500ms", headgate.Limit{Rate: 3, Period: 1500 * time.Millisecond}, ""},
		{"3/1001us", headgate.Limit{Rate: 3, Period: 1001 * time.Microsecond}, ""},
		{"1000000/month", headgate.Limit{Rate: 1_000_000, Calendar: headgate.Calendar{Unit: headgate.CalendarMonth}}, ""},
		{"500/day in America/New_York", headgate.Limit{Rate: 500, Calendar: headgate.Calendar{Unit: headgate.CalendarDay, Zone: "America/New_York"}}, ""},
		{"500/day in Europe/Berlin from 06:00", headgate.Limit{Rate: 500, Calendar: headgate.Calendar{Unit: headgate.CalendarDay, Zone: "Europe/Berlin", From: 360}}, ""},
		{"10000/week from sunday", headgate.Limit{Rate: 10_000, Calendar: headgate.Calendar{Unit: headgate.CalendarWeek, From: 6}}, ""},
		{"5000000/month from 15", headgate.Limit{Rate: 5_000_000, Calendar: headgate.Calendar{Unit: headgate.CalendarMonth, From: 14}}, ""},
		{"2000/quarter", headgate.Limit{Rate: 2000, Calendar: headgate.Calendar{Unit: headgate.CalendarQuarter}}, ""},
		{"1 per Year", headgate.Limit{Rate: 1, Calendar: headgate.Calendar{Unit: headgate.CalendarYear}}, "1/year"},
		{"100/hour in Asia/Kolkata", headgate.Limit{Rate: 100, Calendar: headgate.Calendar{Unit: headgate.CalendarHour, Zone: "Asia/Kolkata"}}, ""},
		{"7/week from Monday", headgate.Limit{Rate: 7, Calendar: headgate.Calendar{Unit: headgate.CalendarWeek}}, "7/week in UTC"},
		{"1000000001/s", headgate.Limit{Rate: headgate.MaxUnits + 1, Period: time.Second}, ""},
		{"9007199254740991/366d", headgate.Limit{Rate: headgate.MaxWindowUnits, Period: headgate.MaxPeriod}, ""},
		{"1000000000/ms burst 1000000000", headgate.Limit{Rate: headgate.MaxUnits, Period: time.Millisecond, Burst: headgate.MaxUnits}, ""},
		{" 10 / 2 s  burst  3 ", headgate.Limit{Rate: 10, Period: 2 * time.Second, Burst: 3}, "10/2s burst 3"},
		{"\t10/s\tqueue\t3", headgate.Limit{Rate: 10, Period: time.Second, Queue: 3}, "10/s queue 3"},
		{"007/s", headgate.Limit{Rate: 7, Period: time.Second}, "7/s"},
		{"10/s queue 0", headgate.Limit{Rate: 10, Period: time.Second, Burst: 1}, "10/s burst 1"},
		{"10/sec", headgate.Limit{Rate: 10, Period: time.Second}, "10/s"},
		{"10/second", headgate.Limit{Rate: 10, Period: time.Second}, "10/s"},
		{"10/min", headgate.Limit{Rate: 10, Period: time.Minute}, "10/m"},
		{"10/minute", headgate.Limit{Rate: 10, Period: time.Minute}, "10/m"},
		{"10/minutes", headgate.Limit{Rate: 10, Period: time.Minute}, "10/m"},
		{"10/5minutes", headgate.Limit{Rate: 10, Period: 5 * time.Minute}, "10/5m"},
		{"10/5 Minutes", headgate.Limit{Rate: 10, Period: 5 * time.Minute}, "10/5m"},
		{"5/hour", headgate.Limit{Rate: 5, Period: time.Hour}, "5/h"},
		{"1/day", headgate.Limit{Rate: 1, Period: day}, "1/d"},
		{"2/week", headgate.Limit{Rate: 2, Period: 7 * day, Calendar: headgate.Calendar{Unit: headgate.CalendarWeek}}, ""},
		{"3/1500 milliseconds", headgate.Limit{Rate: 3, Period: 1500 * time.Millisecond}, "3/1500ms"},
		{"3/1001 microseconds", headgate.Limit{Rate: 3, Period: 1001 * time.Microsecond}, "3/1001us"},
		{"10 per s", headgate.Limit{Rate: 10, Period: time.Second}, "10/s"},
		{"10 per minute", headgate.Limit{Rate: 10, Period: time.Minute}, "10/m"},
		{"10 per 5 minutes", headgate.Limit{Rate: 10, Period: 5 * time.Minute}, "10/5m"},
		{"10 per minute burst 20", headgate.Limit{Rate: 10, Period: time.Minute, Burst: 20}, "10/m burst 20"},
		{"10/minute queue 5", headgate.Limit{Rate: 10, Period: time.Minute, Queue: 5}, "10/m queue 5"},
		{"16 concurrent", headgate.Limit{Rate: 16, Concurrent: true}, ""},
		{" 1000000000\tConcurrent ", headgate.Limit{Rate: headgate.MaxUnits, Concurrent: true}, "1000000000 concurrent"},
		{"10 PER MINUTE BURST 20", headgate.Limit{Rate: 10, Period: time.Minute, Burst: 20}, "10/m burst 20"},
	} {
		got, err := headgate.ParseLimit(c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseLimit(%q): got %+v, error %v want %+v", c.text, got, err, c.want)
		}
		if c.printed == "" {
			c.printed = c.text
		}
		if got.String() != c.printed {
			t.Errorf("ParseLimit(%q).String(): got %q want %q", c.text, got, c.printed)
		}
	}
}

func TestParseLimitErrorPosition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		part   string // what the error points at, the first one after a mark of |
		reason string // that the error must contain
	}{
		{"|", "", "number of units"},
		{"|ten/s", "ten", "number of units"},
		{"|+10/s", "+10", "number of units"},
		{"|-/s", "-", "number of units"},
		{"|/s", "/s", "number of units"},
		{"|1.5/s", "1.5", "without a fraction; write 3/2s"},
		{"|0.1/s burst 5", "0.1", "write 1/10s"},
		{"|2.50 per minute", "2.50", "write 5/2m"},
		{"|1.0/s", "1.0", "write 1/s"},
		{"|0.0/s", "0.0", "without a fraction"},
		{"|0.00000001/366d", "0.00000001", "without a fraction"},
		{"|1.5", "1.5", "without a fraction"},
		{"|1.5.5/s", "1.5.5", "without a fraction"},
		{"|1.5/x", "1.5", "without a fraction"},
		{"10|", "", "a slash and a period"},
		{"10 |pers", "pers", "a slash and a period"},
		{"16|concurrent", "concurrent", "expected a space before the word; write 16 concurrent"},
		{"16 |concurrently", "concurrently", "write 16 concurrent"},
		{"5/month from 15 |in Europe/Berlin", "in", "expected the time zone before from; write 5/month in Europe/Berlin from 15"},
		{"5/day from 06:00 |IN Europe/Berlin", "IN", "before from; write 5/day in Europe/Berlin from 06:00"},
		{"5/month from 15 |in Mars/Base", "in", "before from, as in 5/day in Europe/Berlin from 06:00"},
		{"5/month in UTC from 15 |in Europe/Berlin", "in", "before from"},
		{"5/d |in Europe/Berlin", "in", "only a unit of the calendar has a time zone or a start; write 5/day in Europe/Berlin"},
		{"5/24h |in Europe/Berlin from 06:00", "in", "write 5/day in Europe/Berlin from 06:00"},
		{"5/24h |from 06:00", "from", "write 5/day from 06:00"},
		{"5/w |from sunday", "from", "write 5/week from sunday"},
		{"5/60m |in Asia/Kolkata", "in", "write 5/hour in Asia/Kolkata"},
		{"5/30d |in Europe/Berlin", "in", "a time zone or a start, as in 5/day in Europe/Berlin from 06:00"},
		{"5/d |in", "in", "as in 5/day in Europe/Berlin"},
		{"16 |in flight", "in", "write 16 concurrent"},
		{"16 concurrent|/s", "/s", "has no period and no burst; write 16 concurrent"},
		{"16 concurrent |per second", "per second", "write 16 concurrent"},
		{"16 concurrent |burst 5", "burst 5", "write 16 concurrent"},
		{"16/|concurrent", "concurrent", "has no slash and no period; write a number and concurrent"},
		{"16 per |concurrent", "concurrent", "has no slash and no period"},
		{"10 per|", "", "a unit of time"},
		{"10 per |burst 5", "burst", "a unit of time"},
		{"10 per |/s", "/s", "a unit of time"},
		{"1|k/s", "k", "write 1000/s"},
		{"5|K per 2 minutes", "K", "write 5000/2m"},
		{"2|M/", "M", "write 2000000"},
		{"5000|M/s", "M", "a slash and a period"},
		{"1|G/s", "G", "a slash and a period"},
		{"8|d", "d", "expected a slash before the unit of time; write 8/d, or 1/8d for one in that time"},
		{"30 |seconds", "seconds", "write 30/seconds, or 1/30seconds for one"},
		{"0|d", "d", "a slash and a period"},
		{"367|d", "d", "a slash and a period"},
		{"1|e9/s", "e9", "a slash and a period"},
		{"10/|", "", "a unit of time"},
		{"10/|x", "x", "a unit of time"},
		{"10/|S", "S", "units are in lower case; write s"},
		{"10/5|", "", "a unit of time"},
		{"10/|M", "M", "m is a minute; write month"},
		{"10/s |burst=20", "burst=20", "write burst 20"},
		{"10/s |queue=x", "queue=x", "burst N, or queue N"},
		{"10/5|minutely", "minutely", "a unit of time"},
		{"10/5 |fortnights", "fortnights", "a unit of time"},
		{"5/2 |Months", "Months", "write month without a number, or a number of days, for example 30d"},
		{"5/|months", "months", "write month without a number"},
		{"5/1|y", "y", "write year without a number"},
		{"5/day in |Mars/Base", "Mars/Base", "the time zone is unknown"},
		{"5/day in |utc", "utc", "write UTC"},
		{"5/day in |Local", "Local", "is not a name of the zone database"},
		{"5/day in|", "", "expected a time zone"},
		{"5/day from |6am", "6am", "as in from 06:00"},
		{"5/day from |24:00", "24:00", "from 00:00 to 23:59"},
		{"5/week from |15", "15", "as in from sunday"},
		{"5/month from |32", "32", "from 1 to 31"},
		{"5/year from |15", "15", "from is not accepted for the unit year; remove it"},
		{"5/1|h30m", "h30m", "write 90m"},
		{"5/1|h30min", "h30min", "write 90m"},
		{"5/1|d12h", "d12h", "write 36h"},
		{"5/1|h30", "h30", "a unit of time"},
		{"5/9|d366d", "d366d", "a unit of time"},
		{"10/|1.5s", "1.5s", "without a fraction"},
		{"10/|-s", "-s", "a whole number"},
		{"10/|s\n", "s\n", "a unit of time"},
		{"10/s |bursts 5", "bursts", "burst N, or queue N"},
		{"10/s|/5", "/5", "burst N, or queue N"},
		{"10/s burst|", "", "number of units after burst"},
		{"10/s burst |x", "x", "number of units after burst"},
		{"10/s queue |5.5", "5.5", "without a fraction"},
		{"10/s burst 5 |queue 5", "queue", "nothing more"},
		{"10/s burst 5|x", "x", "nothing more"},
		{"10/s |é", "é", "burst N, or queue N"},
	} {
		offset := strings.Index(c.text, "|")
		text := strings.Replace(c.text, "|", "", 1)
		_, err := headgate.ParseLimit(text)
		var syntax *headgate.SyntaxError
		if !errors.As(err, &syntax) || !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Errorf("ParseLimit(%q): got error %v want a SyntaxError", text, err)
			continue
		}
		if syntax.Input != text || syntax.Offset != offset || text[offset:offset+syntax.Length] != c.part {
			t.Errorf("ParseLimit(%q): got %d bytes from byte %d want %q at byte %d", text, syntax.Length, syntax.Offset, c.part, offset)
		}
		if !strings.Contains(err.Error(), c.reason) {
			t.Errorf("ParseLimit(%q): got %q want it to say %q", text, err, c.reason)
		}
	}
}

func TestSyntaxErrorMarksPosition(t *testing.T) {
	t.Parallel()
	_, err := headgate.ParseLimit("10/5 minuets")
	want := `headgate: invalid limit "10/5 minuets": column 6: ` +
		"expected a unit of time: us, ms, s, m, h, d, w or a word such as minutes, with an optional whole number before it\n" +
		"\t10/5 minuets\n" +
		"\t     ^^^^^^^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestParseLimitOutOfRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, field, value, bound string }{
		{"0/s", "rate", "0", "1 to 1000000000"},
		{"-1/s", "rate", "-1", "1 to 1000000000"},
		{"0/month", "rate", "0", "must be 1 to 9007199254740991"},
		{"1000000001/s burst 1", "rate", "1000000001", "1 to 1000000000"},
		{"2147483648/s queue 1", "rate", "2147483648", "1 to 1000000000"},
		{"9007199254740992/s", "rate", "9007199254740992", "1 to 1000000000"},
		{"9223372036854775807/s", "rate", "9223372036854775807", "1 to 1000000000"},
		{"9223372036854775808/s", "rate", "9223372036854775808", "1 to 1000000000"},
		{"1/0s", "period", "0s", "1ms to 366 days"},
		{"1/-1s", "period", "-1", "1ms to 366 days"},
		{"1/999us", "period", "999µs", "must be 1ms to 366 days (366d)"},
		{"1/367d", "period", "367d", "1ms to 366 days"},
		{"1/53w", "period", "53w", "1ms to 366 days"},
		{"1/9223372036854775807ms", "period", "9223372036854775807ms", "1ms to 366 days"},
		{"1/9223372036854775808s", "period", "9223372036854775808", "1ms to 366 days"},
		{"1/s burst 0", "burst", "0", "1 to 1000000000"},
		{"1/s burst -5", "burst", "-5", "1 to 1000000000"},
		{"1/s burst 1000000001", "burst", "1000000001", "1 to 1000000000"},
		{"1/s queue -1", "queue", "-1", "0 to 1000000000"},
		{"1/s queue 1000000001", "queue", "1000000001", "0 to 1000000000"},
		{"1/d burst 36526", "fill time", "36526·d/1", "at most 100 years"},
		{"1/d queue 36525", "fill time", "36526·d/1", "at most 100 years"},
		{"1/s burst 999" + strings.Repeat("9", 100), "burst", strings.Repeat("9", 24) + "…", "1 to 1000000000"},
		{"1/" + strings.Repeat("9", 100) + "d", "period", strings.Repeat("9", 24) + "…", "1ms to 366 days"},
		{"1/999" + strings.Repeat(" ", 100) + "d", "period", "999" + strings.Repeat(" ", 21) + "…", "1ms to 366 days"},
	} {
		_, err := headgate.ParseLimit(c.text)
		var limit *headgate.LimitError
		if !errors.As(err, &limit) || !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Errorf("ParseLimit(%q): got error %v want a LimitError", c.text, err)
			continue
		}
		if limit.Field != c.field || limit.Value != c.value || !strings.Contains(limit.Bound, c.bound) {
			t.Errorf("ParseLimit(%q): got field %q, value %q, bound %q want %q, %q and %q", c.text, limit.Field, limit.Value, limit.Bound, c.field, c.value, c.bound)
		}
		for _, part := range []string{c.field, c.value, c.bound} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("ParseLimit(%q): got %q want it to name %q", c.text, err, part)
			}
		}
	}
}

func TestParseLimitDomainEdges(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1/d burst 36525", "1/d queue 36524", "1000000000/366d burst 1000000000", "1000000000/366d queue 1000000000", "1/ms", "1/1000us"} {
		if _, err := headgate.ParseLimit(text); err != nil {
			t.Errorf("ParseLimit(%q): got error %v want none: it is at the edge of the domain", text, err)
		}
	}
}

// malformedTexts returns invalid limits that try to disturb a terminal or a log.
func malformedTexts() []string {
	const mega = 1 << 20
	return []string{
		strings.Repeat("9", mega), strings.Repeat("9", mega) + "/s", "1/" + strings.Repeat("9", mega) + "s",
		strings.Repeat(" ", mega), strings.Repeat("/", mega), "1/s burst " + strings.Repeat("é", mega), "1/999" + strings.Repeat(" ", mega) + "d",
		"1/s burst " + strings.Repeat("0", mega), "1/s " + strings.Repeat("x", mega), strings.Repeat(" ", mega) + "x", "-" + strings.Repeat("0", mega) + "/s",
		"\x00/s", "1/\x1b[2J\x1b[H", "1/s \u009b2J", "1/s \u202eburst", "\xff\xfe/s", "1/s\r\n\r\n", "%s%n/%d", "1/s burst \x00",
	}
}

func TestParseLimitRejectsHostileText(t *testing.T) {
	t.Parallel()
	for _, text := range malformedTexts() {
		_, err := headgate.ParseLimit(text)
		if err == nil || !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Errorf("ParseLimit(%.20q…, %d bytes): got error %v want ErrInvalidLimit", text, len(text), err)
			continue
		}
		said := err.Error()
		if len(said) > 1000 {
			t.Errorf("ParseLimit(%.20q…, %d bytes): got an error of %d bytes want at most 1000", text, len(text), len(said))
		}
		if strings.ContainsAny(said, "\x00\x1b\r\u009b\u202e\x7f") || !utf8.ValidString(said) {
			t.Errorf("ParseLimit(%.20q…): got error %q want nothing in it that moves a cursor", text, said)
		}
	}
}

func TestLimitStringRoundTrip(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	valid := 0
	for valid < 20_000 {
		l := headgate.Limit{Rate: units(random), Period: time.Duration(1+units(random)) * []time.Duration{1, 1000, 60e6, 3600e6}[random.IntN(4)] * time.Microsecond}
		switch random.IntN(3) {
		case 0:
			l.Burst = units(random)
		case 1:
			l.Queue = units(random)
		}
		if l.Validate() != nil {
			continue
		}
		valid++
		if got, err := headgate.ParseLimit(l.String()); err != nil || got != l {
			t.Fatalf("%+v prints as %q, which parses to %+v, error %v", l, l, got, err)
		}
	}
}

// units returns a random number; each order of magnitude is equally likely.
func units(r *rand.Rand) int64 { return int64(math.Pow(10, 9*r.Float64())) }

func FuzzParseLimit(f *testing.F) {
	for _, text := range []string{"10/s", "100/1m burst 20", "1000/24h", "5/15m queue 3", "1/1001us", "0/s", "unlimited", "0 concurrent", "1/", "1/s burst", "-1/s", "1.5/s", " 1 / 2 w ", "10 per 5 Minutes burst 3", "1/1h30m", "0.25/hour", "1k/s", "5/month"} {
		f.Add(text)
	}
	for _, text := range malformedTexts() {
		f.Add(text[:min(len(text), 100)])
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := headgate.ParseLimit(text)
		var syntax *headgate.SyntaxError
		switch {
		case err == nil:
			if again, err := headgate.ParseLimit(l.String()); err != nil || again != l || l.Validate() != nil {
				t.Fatalf("%q parses to %+v, which prints as %q, which parses to %+v, error %v", text, l, l, again, err)
			}
		case !errors.Is(err, headgate.ErrInvalidLimit) || l != headgate.Limit{}:
			t.Fatalf("%q: got %+v, error %v want no limit and ErrInvalidLimit", text, l, err)
		case errors.As(err, &syntax):
			if syntax.Offset < 0 || syntax.Length < 0 || syntax.Offset+syntax.Length > len(text) {
				t.Fatalf("%q: got %d bytes from byte %d want them inside the text", text, syntax.Length, syntax.Offset)
			}
		}
		policy, policyErr := headgate.ParsePolicyLimit(text)
		switch {
		case err == nil && policy != l, err != nil && policyErr == nil && !policy.IsUnlimited() && !policy.IsBlocked():
			t.Fatalf("%q: ParseLimit got %+v, error %v, ParsePolicyLimit %+v", text, l, err, policy)
		case policyErr == nil:
			if again, err := headgate.ParsePolicyLimit(policy.String()); err != nil || again != policy {
				t.Fatalf("%q parses to %+v, which prints as %q, which parses to %+v, error %v", text, policy, policy, again, err)
			}
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Fatalf("%q: got an error of %d bytes", text, len(err.Error()))
		}
	})
}

func TestLimitValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		limit headgate.Limit
		field string // of the error; empty if the limit is valid
	}{
		{"zero value", headgate.Limit{}, "rate"},
		{"zero rate", headgate.Limit{Period: time.Second}, "rate"},
		{"negative rate", headgate.Limit{Rate: -1, Period: time.Second}, "rate"},
		{"least rate", headgate.Limit{Rate: math.MinInt64, Period: time.Second}, "rate"},
		{"rate of 1e9", headgate.Limit{Rate: 1e9, Period: time.Second}, ""},
		{"rate of 1e9+1 with a burst", headgate.Limit{Rate: 1e9 + 1, Period: time.Second, Burst: 1}, "rate"},
		{"rate of 2^31 with a queue", headgate.Limit{Rate: 1 << 31, Period: time.Second, Queue: 1}, "rate"},
		{"rate of 2^53-1", headgate.Limit{Rate: 1<<53 - 1, Period: time.Second}, ""},
		{"rate of 2^53", headgate.Limit{Rate: 1 << 53, Period: time.Second}, "rate"},
		{"rate of 2^63-1", headgate.Limit{Rate: math.MaxInt64, Period: time.Second}, "rate"},
		{"zero period", headgate.Limit{Rate: 1}, "period"},
		{"negative period", headgate.Limit{Rate: 1, Period: -time.Second}, "period"},
		{"999 µs", headgate.Limit{Rate: 1, Period: 999 * time.Microsecond}, "period"},
		{"1 ms", headgate.Limit{Rate: 1, Period: time.Millisecond}, ""},
		{"1 ms and 1 ns", headgate.Limit{Rate: 1, Period: time.Millisecond + 1}, "period"},
		{"366 days", headgate.Limit{Rate: 1, Period: 366 * day}, ""},
		{"366 days and 1 µs", headgate.Limit{Rate: 1, Period: 366*day + time.Microsecond}, "period"},
		{"period of 2^63-1 ns", headgate.Limit{Rate: 1, Period: math.MaxInt64}, "period"},
		{"negative burst", headgate.Limit{Rate: 1, Period: time.Second, Burst: -1}, "burst"},
		{"burst of 1e9", headgate.Limit{Rate: 1, Period: time.Second, Burst: 1e9}, ""},
		{"burst of 2^31", headgate.Limit{Rate: 1, Period: time.Second, Burst: 1 << 31}, "burst"},
		{"burst of 2^63-1", headgate.Limit{Rate: 1, Period: time.Second, Burst: math.MaxInt64}, "burst"},
		{"negative queue", headgate.Limit{Rate: 1, Period: time.Second, Queue: -1}, "queue"},
		{"queue of 1e9", headgate.Limit{Rate: 1, Period: time.Second, Queue: 1e9}, ""},
		{"queue of 2^53", headgate.Limit{Rate: 1, Period: time.Second, Queue: 1 << 53}, "queue"},
		{"burst and queue", headgate.Limit{Rate: 1, Period: time.Second, Burst: 5, Queue: 5}, "queue"},
		{"fills in 100 years", headgate.Limit{Rate: 1, Period: day, Burst: 36525}, ""},
		{"fills in 100 years and a day", headgate.Limit{Rate: 1, Period: day, Burst: 36526}, "fill time"},
		{"the queue's place at the head counts", headgate.Limit{Rate: 1, Period: day, Queue: 36525}, "fill time"},
		{"a product above 2^63", headgate.Limit{Rate: 1, Period: 366 * day, Burst: 1e9}, "fill time"},
		{"a product above 2^63 that fills in time", headgate.Limit{Rate: 999_999_999, Period: 366 * day, Burst: 1e9}, ""},
	} {
		err := c.limit.Validate()
		var limit *headgate.LimitError
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %+v: got error %v want none", c.name, c.limit, err)
		case c.field != "" && (!errors.As(err, &limit) || !errors.Is(err, headgate.ErrInvalidLimit) || limit.Field != c.field):
			t.Errorf("%s: %+v: got error %v want one about the %s", c.name, c.limit, err, c.field)
		}
	}
}

func TestLimitCapacity(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"7/s": 7, "7/s burst 3": 3, "7/s burst 30": 30, "7/s queue 5": 6, "7/s queue 0": 1} {
		if got := headgate.MustParseLimit(text).Capacity(); got != want {
			t.Errorf("%q: got capacity %d want %d", text, got, want)
		}
	}
}

func TestLimitJSON(t *testing.T) {
	t.Parallel()
	var config struct{ Limit headgate.Limit }
	if err := json.Unmarshal([]byte(`{"Limit":"100/1m burst 20"}`), &config); err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(config); err != nil || string(text) != `{"Limit":"100/m burst 20"}` {
		t.Errorf("got %s, error %v want the limit's text", text, err)
	}
	if _, err := json.Marshal(headgate.Limit{}); !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("marshal the zero limit: got error %v want ErrInvalidLimit", err)
	}
	if err := json.Unmarshal([]byte(`{"Limit":"often"}`), &config); !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("unmarshal nonsense: got error %v want ErrInvalidLimit", err)
	}
}

func TestMustParseLimitPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Errorf("MustParseLimit of nonsense: got %v want a panic with ErrInvalidLimit", err)
		}
	}()
	headgate.MustParseLimit("nonsense")
}

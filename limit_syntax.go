package headgate

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// periodUnits are the units of a period, longest first, so that formatPeriod finds the
// largest unit that divides a period. The short name is case-sensitive, the words are
// not.
var periodUnits = [...]struct {
	name   string
	words  []string
	length time.Duration
}{
	{"w", []string{"week", "weeks"}, 7 * 24 * time.Hour},
	{"d", []string{"day", "days"}, 24 * time.Hour},
	{"h", []string{"hour", "hours"}, time.Hour},
	{"m", []string{"min", "mins", "minute", "minutes"}, time.Minute},
	{"s", []string{"sec", "secs", "second", "seconds"}, time.Second},
	{"ms", []string{"millisecond", "milliseconds"}, time.Millisecond},
	{"us", []string{"microsecond", "microseconds"}, time.Microsecond},
}

// calendarHints has, for a word that ParseLimit does not accept, the unit of the calendar
// that it probably means.
var calendarHints = map[string]string{
	"mo": "month", "mon": "month", "month": "month", "months": "month", "quarter": "quarter", "quarters": "quarter",
	"y": "year", "yr": "year", "year": "year", "years": "year",
}

// ParseLimit parses a limit: a rate, a slash or "per", a period, and an optional
// capacity.
//
//	10/s                     10 per second
//	10/minute                10 per minute; short: 10/m
//	10 per 5 minutes         10 per 5 minutes; short: 10/5m
//	1000/24h                 1000 per 24 hours
//	5/15m burst 20           5 per 15 minutes on average, 20 simultaneously
//	100/1m queue 50          100 per minute, up to 50 queued (leaky bucket)
//	1000000/month            1000000 per calendar month, in UTC (calendar_window)
//	500/day in Europe/Berlin from 06:00
//	                         500 per day from 6 in the morning (calendar_window)
//	16 concurrent            16 at the same time (concurrency)
//
// A period is a unit with an optional whole number before it. The units are ms, s, m,
// h, d and w, us for microseconds, and the words second, minute, hour, day and week,
// their plurals, sec and min. Words are case-insensitive; the short units are
// case-sensitive. The words month, quarter and year are windows of the calendar, and with
// “in” and a time zone or “from” and a start, so are hour, day and week. Under
// [CalendarWindow] the word week alone is a week from Monday to Sunday; see [Calendar].
// “queue 0” means the same as “burst 1”: no request waits in a queue.
//
// For text that cannot be parsed, ParseLimit returns a [*SyntaxError], which points at
// the wrong part. For a limit outside the accepted range it returns a [*LimitError]. A
// returned limit has passed [Limit.Validate].
func ParseLimit(text string) (Limit, error) {
	s := scanner{text: text}
	l, err := s.limit()
	if err != nil {
		return Limit{}, err
	}
	if err := l.Validate(); err != nil {
		return Limit{}, err
	}
	return l, nil
}

// MustParseLimit is like [ParseLimit], but panics instead of returning an error. Use it
// for limits that are constants in the source code.
func MustParseLimit(text string) Limit {
	l, err := ParseLimit(text)
	if err != nil {
		panic(err)
	}
	return l
}

// String returns the limit in its shortest text form. [ParsePolicyLimit] parses this text
// to the same limit, and so does [ParseLimit], except for [Unlimited] and [Blocked].
func (l Limit) String() string {
	if l.isUncounted() {
		return l.kind.text()
	}
	if l.Concurrent {
		return strconv.FormatInt(l.Rate, 10) + " " + concurrentWord
	}
	if l.isOnlyCalendar() {
		return strconv.FormatInt(l.Rate, 10) + "/" + l.Calendar.text()
	}
	period := formatPeriod(l.Period)
	if l.Calendar.Unit != 0 {
		period = l.Calendar.Unit.String()
	}
	text := strconv.FormatInt(l.Rate, 10) + "/" + period
	if l.Burst > 0 {
		text += " burst " + strconv.FormatInt(l.Burst, 10)
	}
	if l.Queue > 0 {
		text += " queue " + strconv.FormatInt(l.Queue, 10)
	}
	return text
}

// MarshalText returns the same text as [Limit.String], or an error if the limit is
// invalid.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil && !l.isUncounted() {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText parses text with [ParseLimit], so it does not accept “unlimited” and
// “0/s”: the text may be from a client.
func (l *Limit) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLimit(string(text))
	return err
}

func formatPeriod(p time.Duration) string {
	for _, u := range periodUnits {
		if p >= u.length && p%u.length == 0 {
			if p == u.length {
				return u.name
			}
			return strconv.FormatInt(int64(p/u.length), 10) + u.name
		}
	}
	return p.String()
}

const acceptedPeriods = "must be 1ms to 366 days (366d)"

// scanner parses the text of a limit from left to right. The field at is the offset of
// the next byte.
type scanner struct {
	text string
	at   int
}

func (s *scanner) limit() (l Limit, err error) {
	s.spaces()
	if word := s.word(); strings.EqualFold(clip(word), unlimitedText) {
		return l, s.failAt(word, "expected the number of units; only a limit in a policy may be unlimited")
	}
	if l.Rate, err = s.count("rate", "the number of units, as in 10/s"); err != nil {
		return l, err
	}
	end := s.at
	if s.spaces(); s.skipWord(concurrentWord) {
		if l.Concurrent = true; s.at == end+len(concurrentWord) {
			s.at = end
			return l, s.failAt(concurrentWord, "expected a space before the word; write "+l.String())
		}
		return l, s.endConcurrent(l)
	}
	if !s.skip('/') && !s.skipWord("per") {
		return l, s.failSeparator(l.Rate)
	}
	s.spaces()
	if err = s.window(&l); err != nil {
		return l, err
	}
	s.spaces()
	return l, s.capacity(&l)
}

// window parses a period or a calendar.
func (s *scanner) window(l *Limit) error {
	c, isPeriod, err := s.calendar()
	if err != nil {
		return err
	}
	if !isPeriod || c.Unit == CalendarWeek {
		l.Calendar = c
	}
	if isPeriod {
		l.Period, err = s.period()
	}
	return err
}

func (s *scanner) period() (time.Duration, error) {
	start, count := s.at, int64(1)
	if s.digit() || strings.HasPrefix(s.text[s.at:], "-") {
		var err error
		if count, err = s.count("period", "a whole number"); err != nil {
			return 0, err
		}
	}
	s.spaces()
	word := s.word()
	unit := unitLength(word)
	if unit == 0 {
		return 0, s.failUnit(word, count)
	}
	s.at += len(word)
	if count < 1 || count > int64(MaxPeriod/unit) {
		return 0, &LimitError{"period", clip(s.text[start:s.at]), acceptedPeriods}
	}
	return time.Duration(count) * unit, nil
}

// unitLength returns the length of the unit of time named word, or 0 if there is no
// such unit.
func unitLength(word string) time.Duration {
	lower := strings.ToLower(clip(word))
	for _, u := range periodUnits {
		if word == u.name || len(lower) == len(word) && slices.Contains(u.words, lower) { // ToLower maps U+212A to k
			return u.length
		}
	}
	return 0
}

func (s *scanner) capacity(l *Limit) (err error) {
	word := ""
	switch {
	case s.at == len(s.text):
		return nil
	case s.skipWord("burst"):
		word = "burst"
	case s.skipWord("queue"):
		word = "queue"
	default:
		return s.failCapacity(l)
	}
	s.spaces()
	start := s.at
	n, err := s.count(word, "the number of units after "+word)
	if err != nil {
		return err
	}
	if n == 0 && word == "burst" {
		return &LimitError{"burst", clip(s.text[start:s.at]), accepted(word)}
	}
	if l.Burst = n; word == "queue" && n > 0 {
		l.Burst, l.Queue = 0, n
	} else if word == "queue" {
		l.Burst = 1 // a leaky bucket without a queue: its capacity is Queue + 1
	}
	s.spaces()
	return s.end()
}

// concurrentWord follows the number of slots in a limit under [Concurrency].
const concurrentWord = "concurrent"

// endConcurrent parses the end of a limit such as “16 concurrent”.
func (s *scanner) endConcurrent(l Limit) error {
	if s.spaces(); s.at < len(s.text) {
		return s.failAt(s.text[s.at:], "expected nothing more: a limit of concurrent requests has no period and no burst; write "+l.String())
	}
	return nil
}

func (s *scanner) end() error {
	if s.at < len(s.text) {
		return s.failAt(s.word(), "expected nothing more")
	}
	return nil
}

// count parses a whole number. For a number that is negative or too large, it returns a
// [*LimitError] instead of a [*SyntaxError].
func (s *scanner) count(field, expected string) (int64, error) {
	start := s.at
	if s.at < len(s.text) && s.text[s.at] == '-' {
		s.at++
	}
	digits := s.at
	for s.digit() {
		s.at++
	}
	if s.at == digits {
		s.at = start
		return 0, s.failAt(s.word(), "expected "+expected)
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at = start
		return 0, s.failFraction(field)
	}
	n, err := strconv.ParseInt(s.text[start:s.at], 10, 64)
	if err != nil || n < 0 || field != "period" && n > maxUnitsOf(field) {
		return 0, &LimitError{field, clip(s.text[start:s.at]), accepted(field)}
	}
	return n, nil
}

// maxUnitsOf returns the maximum of a field in units. Whether the algorithm accepts a
// rate above MaxUnits is checked later, because it is not in the text.
func maxUnitsOf(field string) int64 {
	if field == "rate" {
		return MaxWindowUnits
	}
	return MaxUnits
}

func accepted(field string) string {
	switch field {
	case "period":
		return acceptedPeriods
	case "rate":
		return largeRateBound
	case "queue":
		return "must be 0 to 1000000000"
	default:
		return "must be 1 to 1000000000"
	}
}

func (s *scanner) digit() bool {
	return s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9'
}

func (s *scanner) spaces() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t') {
		s.at++
	}
}

func (s *scanner) skip(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// skipWord skips word, ignoring case, and returns true if it is at the scanner's
// position.
func (s *scanner) skipWord(word string) bool {
	next := s.word()
	if len(next) != len(word) || !strings.EqualFold(next, word) {
		return false
	}
	s.at += len(next)
	return true
}

// word returns the bytes up to the next space or slash, without skipping them.
func (s *scanner) word() string {
	rest := s.text[s.at:]
	if i := strings.IndexAny(rest, " \t/"); i > 0 {
		return rest[:i]
	}
	return rest
}

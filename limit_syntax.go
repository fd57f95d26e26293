package headgate

import (
	"strconv"
	"strings"
	"time"
)

// periodUnits are the units of a period, longest first, so that printing finds the largest that divides.
var periodUnits = [...]struct {
	name   string
	length time.Duration
}{
	{"w", 7 * 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
}

// ParseLimit reads the text of a limit: a rate, a slash, a period, and an optional capacity.
//
//	10/s                 ten a second
//	1000/24h             a thousand in 24 hours
//	5/15m burst 20       five in 15 minutes on average, 20 at once
//	100/1m queue 50      a hundred a minute, up to 50 waiting (leaky bucket)
//
// Units of a period are ms s m h d w (and us, for periods that are no whole milliseconds), with an optional whole count before
// them. “queue 0” is “burst 1”: nothing waits. What cannot be read gives a [*SyntaxError] that points at the part; what is read
// but lies outside the domain gives a [*LimitError]. The result is valid: [Limit.Validate] has been called.
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

// MustParseLimit is [ParseLimit] for limits written in the program: it panics where ParseLimit returns an error.
func MustParseLimit(text string) Limit {
	l, err := ParseLimit(text)
	if err != nil {
		panic(err)
	}
	return l
}

// String writes the limit so that [ParseLimit] reads it back as the same limit.
func (l Limit) String() string {
	text := strconv.FormatInt(l.Rate, 10) + "/" + formatPeriod(l.Period)
	if l.Burst > 0 {
		text += " burst " + strconv.FormatInt(l.Burst, 10)
	}
	if l.Queue > 0 {
		text += " queue " + strconv.FormatInt(l.Queue, 10)
	}
	return text
}

// MarshalText is [Limit.String] for encoders; an invalid limit is an error.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText is [ParseLimit] for decoders.
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

const acceptedPeriods = "accepted are 1ms to 366 days (366d)"

// scanner reads a limit from left to right; at is the next byte to read.
type scanner struct {
	text string
	at   int
}

func (s *scanner) limit() (l Limit, err error) {
	s.spaces()
	if l.Rate, err = s.count("rate", "the number of units, as in 10/s"); err != nil {
		return l, err
	}
	if s.spaces(); !s.skip('/') {
		return l, s.fail(s.word(), "expected a slash and a period, as in 10/s")
	}
	s.spaces()
	if l.Period, err = s.period(); err != nil {
		return l, err
	}
	s.spaces()
	return l, s.capacity(&l)
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
	unit := s.word()
	for _, u := range periodUnits {
		if unit != u.name {
			continue
		}
		if count < 1 || count > int64(MaxPeriod/u.length) {
			return 0, &LimitError{"period", clip(s.text[start : s.at+len(unit)]), acceptedPeriods}
		}
		s.at += len(unit)
		return time.Duration(count) * u.length, nil
	}
	return 0, s.fail(unit, "expected a unit of time: ms, s, m, h, d or w, with an optional whole count before it")
}

func (s *scanner) capacity(l *Limit) (err error) {
	word := s.word()
	switch word {
	case "":
		return s.end()
	case "burst", "queue":
		s.at += len(word)
	default:
		return s.fail(word, "expected nothing more, or burst N, or queue N")
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
		l.Burst = 1 // a leaky bucket in which nothing waits: its capacity is Q + 1
	}
	s.spaces()
	return s.end()
}

func (s *scanner) end() error {
	if s.at < len(s.text) {
		return s.fail(s.word(), "expected nothing more")
	}
	return nil
}

// count reads a whole number. One below zero or too large to hold is refused as out of the domain, not as nonsense.
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
		return 0, s.fail(s.word(), "expected "+expected)
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at = start
		return 0, s.fail(s.word(), "expected a whole number, without a fraction")
	}
	n, err := strconv.ParseInt(s.text[start:s.at], 10, 64)
	if err != nil || n < 0 || n > MaxUnits && field != "period" {
		return 0, &LimitError{field, clip(s.text[start:s.at]), accepted(field)}
	}
	return n, nil
}

func accepted(field string) string {
	switch field {
	case "period":
		return acceptedPeriods
	case "queue":
		return "accepted are 0 to 1000000000"
	default:
		return "accepted are 1 to 1000000000"
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

// word is the run of bytes from here to the next space or slash, without reading it.
func (s *scanner) word() string {
	rest := s.text[s.at:]
	if i := strings.IndexAny(rest, " \t/"); i > 0 {
		return rest[:i]
	}
	return rest
}

func (s *scanner) fail(part, reason string) error {
	return &SyntaxError{Input: s.text, Offset: s.at, Length: len(part), Reason: reason}
}

// clip keeps an error readable when the number in it is a megabyte long.
func clip(s string) string {
	if len(s) > 24 {
		return s[:24] + "…"
	}
	return s
}

package headgate

import (
	"strconv"
	"strings"
	"time"
)

// failAt returns a SyntaxError that points at part, the text at the scanner's position.
func (s *scanner) failAt(part, reason string) error {
	return &SyntaxError{Input: s.text, Offset: s.at, Length: len(part), Reason: reason}
}

// failSeparator returns the error for a rate that is followed neither by a slash nor by
// “per”.
func (s *scanner) failSeparator(rate int64) error {
	word := s.word()
	if factor := multiplier(word); factor > 0 && rate > 0 && rate <= MaxUnits/factor {
		plain := strconv.FormatInt(rate*factor, 10)
		rest := scanner{text: s.text, at: s.at + len(word)}
		if period, ok := rest.slashPeriod(); ok {
			plain += "/" + formatPeriod(period)
		}
		return s.failAt(word, "expected a number without a suffix; write "+plain)
	}
	if concurrentHints[strings.ToLower(clip(word))] {
		return s.failAt(word, writeConcurrent(rate))
	}
	if length := unitLength(word); length > 0 && rate > 0 && rate <= int64(MaxPeriod/length) {
		text := strconv.FormatInt(rate, 10)
		return s.failAt(word, "expected a slash before the unit of time; write "+text+"/"+word+", or 1/"+text+word+" for one in that time")
	}
	return s.failAt(word, "expected a slash and a period, as in 10/s, or per and a period")
}

// concurrentHints has words that probably mean “concurrent”.
var concurrentHints = map[string]bool{
	"concurrency": true, "concurrently": true, "concurrents": true, "parallel": true, "simultaneous": true, "simultaneously": true,
	"slots": true, "inflight": true, "in-flight": true, "in": true, "at": true,
}

// writeConcurrent returns what to write for a rate that probably is a number of slots.
func writeConcurrent(rate int64) string {
	return "for the number of requests at the same time, write " + Limit{Rate: max(1, rate), Concurrent: true}.String()
}

// multiplier returns the factor of a suffix of a number, such as 1000 for
// k, or 0 for an unknown suffix.
func multiplier(suffix string) int64 {
	switch suffix {
	case "k", "K":
		return 1_000
	case "M":
		return 1_000_000
	default:
		return 0
	}
}

// slashPeriod reads a slash or “per” and then a period. It returns false if the text
// does not have this form.
func (s *scanner) slashPeriod() (time.Duration, bool) {
	if s.spaces(); !s.skip('/') && !s.skipWord("per") {
		return 0, false
	}
	s.spaces()
	if !s.digit() && unitLength(s.word()) == 0 {
		return 0, false
	}
	period, err := s.period()
	return period, err == nil
}

// failFraction returns the error for a number with a decimal point at the scanner's
// position.
func (s *scanner) failFraction(field string) error {
	word, reason := s.word(), "expected a whole number, without a fraction"
	if field == "rate" {
		rest := scanner{text: s.text, at: s.at + len(word)}
		if period, ok := rest.slashPeriod(); ok {
			if whole, ok := wholeRate(word, period); ok {
				reason += "; write " + whole.String()
			}
		}
	}
	return s.failAt(word, reason)
}

// maxFraction is the maximum length, in bytes, of a decimal number for which an error
// suggests a whole rate.
const maxFraction = 10

// wholeRate returns the limit that grants the decimal number of units in each period,
// written with a whole rate. It returns false if no valid limit does.
func wholeRate(decimal string, period time.Duration) (Limit, bool) {
	whole, fraction, _ := strings.Cut(decimal, ".")
	n, err := strconv.ParseUint(whole+fraction, 10, 63)
	if err != nil || fraction == "" || len(decimal) > maxFraction {
		return Limit{}, false
	}
	rate, divisor := int64(n), int64(1)
	for range fraction {
		divisor *= 10
	}
	for _, prime := range []int64{2, 5} {
		for rate%prime == 0 && divisor%prime == 0 {
			rate, divisor = rate/prime, divisor/prime
		}
	}
	if divisor > int64(MaxPeriod/period) {
		return Limit{}, false
	}
	l := Limit{Rate: rate, Period: period * time.Duration(divisor)}
	return l, l.Validate() == nil
}

// failUnit returns the error for a word at the scanner's position that is not a unit of
// time. The parameter count is the number before the word.
func (s *scanner) failUnit(word string, count int64) error {
	switch lower := strings.ToLower(clip(word)); {
	case lower == concurrentWord || concurrentHints[lower]:
		return s.failAt(word, "a limit of concurrent requests has no slash and no period; write a number and concurrent, as in 16 concurrent")
	case calendarHints[lower] != "":
		return s.failAt(word, "a window of the calendar is a single unit; write "+calendarHints[lower]+" without a number, or a number of days, for example 30d")
	case strings.ContainsAny(lower, "0123456789"):
		if period, ok := compoundPeriod(strconv.FormatInt(count, 10) + lower); ok {
			return s.failAt(word, "expected a period of one unit; write "+formatPeriod(period))
		}
	case word == "M":
		return s.failAt(word, "units are in lower case; m is a minute; write month for a month of the calendar")
	case unitLength(lower) > 0:
		return s.failAt(word, "units are in lower case; write "+lower)
	}
	return s.failAt(word, "expected a unit of time: us, ms, s, m, h, d, w or a word such as minutes, "+
		"with an optional whole number before it")
}

// failCapacity returns the error for a word after the period that is neither “burst” nor
// “queue”.
func (s *scanner) failCapacity(l *Limit) error {
	word := s.word()
	if s.textWord() == word && (strings.EqualFold(word, "in") || strings.EqualFold(word, "from")) {
		return s.failAt(word, s.calendarHint(l))
	}
	name, number, found := strings.Cut(strings.ToLower(clip(word)), "=")
	if n, err := strconv.ParseInt(number, 10, 64); found && err == nil && n >= 0 && (name == "burst" || name == "queue") {
		return s.failAt(word, "expected nothing more, or burst N, or queue N; write "+name+" "+number)
	}
	return s.failAt(word, "expected nothing more, or burst N, or queue N")
}

// periodsOfCalendar has the units of the calendar that are similar to a period.
var periodsOfCalendar = map[time.Duration]CalendarUnit{time.Hour: CalendarHour, 24 * time.Hour: CalendarDay, 7 * 24 * time.Hour: CalendarWeek}

// maxHinted is the maximum length, in bytes, of the rest of a text that an error repeats.
const maxHinted = 60

// calendarHint returns the reason why a limit cannot have the word “in” or “from” at the
// scanner's position, and what to write.
func (s *scanner) calendarHint(l *Limit) string {
	reason, unit := "only a unit of the calendar has a time zone or a start", periodsOfCalendar[l.Period]
	if l.Period == 0 {
		reason, unit = "expected the time zone before from", l.Calendar.Unit
	}
	if rest := s.text[s.at:]; unit != 0 && len(rest) <= maxHinted {
		window := strconv.FormatInt(l.Rate, 10) + "/" + unit.String()
		if other, err := ParseLimit(window + " " + rest); err == nil && other.isOnlyCalendar() {
			if l.Period == 0 {
				other.Calendar.From = l.Calendar.From
			}
			return reason + "; write " + other.String()
		}
	}
	return reason + ", as in 5/day in Europe/Berlin from 06:00"
}

// compoundPeriod returns the sum of a text that consists of several numbers with units,
// such as 1h30m. It returns false if the text is not a valid period.
func compoundPeriod(text string) (sum time.Duration, ok bool) {
	for text != "" {
		digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
		count, err := strconv.ParseInt(text[:digits], 10, 64)
		text = text[digits:]
		letters := strings.IndexAny(text, "0123456789")
		if letters < 0 {
			letters = len(text)
		}
		unit := unitLength(text[:letters])
		if err != nil || unit == 0 || count > int64(MaxPeriod/unit) {
			return 0, false
		}
		sum += time.Duration(count) * unit
		text = text[letters:]
	}
	return sum, sum >= MinPeriod && sum <= MaxPeriod
}

// clip shortens text that an error repeats, because the input may contain a number of a
// megabyte.
func clip(s string) string {
	if len(s) > 24 {
		return s[:24] + "…"
	}
	return s
}

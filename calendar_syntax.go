package headgate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/calendar"
)

// calendar parses a calendar: a unit, “in” with a time zone, and “from” with a start. The
// words hour, day and week alone are periods: isPeriod is then true, and the scanner does
// not move. c is the zero value if the text begins with another word.
func (s *scanner) calendar() (c Calendar, isPeriod bool, err error) {
	start, word := s.at, s.word()
	unit := slices.Index(calendarNames[1:], strings.ToLower(clip(word)))
	if unit < 0 {
		return c, true, nil
	}
	c.Unit = CalendarUnit(unit + 1)
	s.at += len(word)
	s.spaces()
	hasZone := s.skipWord("in")
	if hasZone {
		if err := s.zone(&c); err != nil {
			return c, false, err
		}
	}
	hasStart := s.skipWord("from")
	if hasStart {
		if err := s.from(&c); err != nil {
			return c, false, err
		}
	}
	if isPeriod = c.Unit < CalendarMonth && !hasZone && !hasStart; isPeriod {
		s.at = start
	}
	return c, isPeriod, nil
}

// textWord returns the bytes up to the next space, without skipping them. Unlike word, it
// does not end at a slash.
func (s *scanner) textWord() string {
	rest := s.text[s.at:]
	if i := strings.IndexAny(rest, " \t"); i >= 0 {
		return rest[:i]
	}
	return rest
}

func (s *scanner) zone(c *Calendar) error {
	s.spaces()
	name := s.textWord()
	if _, err := calendar.Zone(name); err != nil || name == "" {
		reason := "expected a time zone, as in Europe/Berlin"
		if err != nil {
			reason = "the time zone " + err.Error()
		}
		return s.failAt(name, reason)
	}
	if c.Zone = name; name == "UTC" {
		c.Zone = ""
	}
	s.at += len(name)
	s.spaces()
	return nil
}

// from parses the start of a window: a time for a day, a weekday for a week, a day for a
// month.
func (s *scanner) from(c *Calendar) error {
	s.spaces()
	word := s.textWord()
	lower := strings.ToLower(clip(word))
	from, expected := -1, ""
	switch c.Unit {
	case CalendarDay:
		from, expected = minutesOf(lower), "a time from 00:00 to 23:59, as in from 06:00"
	case CalendarWeek:
		from, expected = slices.Index(weekdays[:], lower), "a weekday, as in from sunday"
	case CalendarMonth:
		from, expected = dayOf(lower), "a day from 1 to 31, as in from 15"
	}
	if expected == "" {
		return s.failAt(word, "from is not accepted for the unit "+c.Unit.String()+"; remove it (day, week and month accept it)")
	}
	if from < 0 {
		return s.failAt(word, "expected "+expected)
	}
	c.From = from
	s.at += len(word)
	s.spaces()
	return nil
}

// minutesOf returns the minutes since midnight of a time such as 06:00, or -1.
func minutesOf(text string) int {
	hour, minute, _ := strings.Cut(text, ":")
	h, m := digitsOf(hour), digitsOf(minute)
	if len(minute) != 2 || h < 0 || h > 23 || m < 0 || m > 59 {
		return -1
	}
	return h*60 + m
}

// dayOf returns the days after the 1st for a day of the month, or -1.
func dayOf(text string) int {
	if n := digitsOf(text); n >= 1 && n <= 31 {
		return n - 1
	}
	return -1
}

// digitsOf returns the number that one or two digits express, or -1.
func digitsOf(text string) int {
	if len(text) < 1 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return -1
	}
	n, _ := strconv.Atoi(text)
	return n
}

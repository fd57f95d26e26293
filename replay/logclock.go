package replay

import (
	"time"

	"github.com/headgate/headgate"
)

// timeLayout is the format of times in access logs, and timeLength is its length in
// bytes.
const (
	timeLayout = "02/Jan/2006:15:04:05 -0700"
	timeLength = len(timeLayout)
	dayLength  = len("02/Jan/2006")
	zoneStart  = len("02/Jan/2006:15:04:05 ")
)

// logClock parses the times of log lines. It caches the day and the time zone of the
// last line, because the next line mostly has the same. The zero value is ready to use.
type logClock struct {
	day, zone string
	midnight  int64 // beginning of the day in the time zone, in seconds since the epoch
}

// read parses text, which must have timeLength bytes, and returns the time in µs since
// the epoch. If text is invalid, reason explains why; otherwise it is empty.
func (c *logClock) read(text []byte) (at int64, reason string) {
	if string(text[:dayLength]) != c.day || string(text[zoneStart:]) != c.zone {
		if !c.learn(text) {
			return 0, badTime
		}
	}
	h, okH := twoDigits(text[dayLength+1:], 23)
	m, okM := twoDigits(text[dayLength+4:], 59)
	s, okS := twoDigits(text[dayLength+7:], 60) // a leap second counts as the first second of the next minute
	if !okH || !okM || !okS || text[dayLength] != ':' || text[dayLength+3] != ':' || text[dayLength+6] != ':' ||
		text[zoneStart-1] != ' ' {
		return 0, badTime
	}
	at = (c.midnight + h*3600 + m*60 + s) * 1e6
	if at < 0 || at > int64(headgate.MaxInstant) {
		return 0, badInstant
	}
	return at, ""
}

// learn parses and caches the day and the time zone in text. It returns false if they
// are invalid.
func (c *logClock) learn(text []byte) bool {
	day, err := time.Parse(timeLayout[:dayLength], string(text[:dayLength]))
	if err != nil {
		return false
	}
	zone := text[zoneStart:]
	h, okH := twoDigits(zone[1:], 23)
	m, okM := twoDigits(zone[3:], 59)
	if !okH || !okM || zone[0] != '+' && zone[0] != '-' {
		return false
	}
	offset := h*3600 + m*60
	if zone[0] == '-' {
		offset = -offset
	}
	c.day, c.zone, c.midnight = string(text[:dayLength]), string(zone), day.Unix()-offset
	return true
}

// twoDigits returns the number in the first two bytes of text. It returns false if they
// are not two digits, or if the number is above the parameter most.
func twoDigits(text []byte, most int64) (int64, bool) {
	tens, ones := text[0]-'0', text[1]-'0'
	n := int64(tens)*10 + int64(ones)
	return n, tens <= 9 && ones <= 9 && n <= most
}

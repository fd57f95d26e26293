package respapi

import (
	"math"
	"unicode/utf8"
)

// parseInt reads a whole number of 64 bits as redis-cell does: digits, behind a sign or not, and nothing else.
func parseInt(text []byte) (n int64, ok bool) {
	digits, negative := text, false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		digits, negative = text[1:], text[0] == '-'
	}
	if len(digits) == 0 {
		return 0, false
	}
	var u uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if d > 9 || u > (math.MaxUint64-d)/10 {
			return 0, false
		}
		u = u*10 + d
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u <= math.MaxInt64:
		return int64(u), true
	}
	return 0, false
}

// clip bounds how much of a stranger's text an error repeats, and makes it UTF-8.
func clip(text []byte) string {
	const most = 64
	more := ""
	if len(text) > most {
		text, more = text[:most], "…"
	}
	if utf8.Valid(text) {
		return string(text) + more
	}
	clean := make([]byte, len(text))
	for i, c := range text {
		clean[i] = shown(c)
	}
	return string(clean) + more
}

package respapi

import (
	"strconv"
	"unicode/utf8"
)

// parseInt parses a 64-bit integer in the format that redis-cell accepts: an optional
// sign and digits. It allocates only if text is not an integer of at most 18 digits
// without a sign. It parses such integers itself, because strconv.ParseInt takes a
// tenth of the time of a CL.THROTTLE.
func parseInt(text []byte) (n int64, ok bool) {
	const maxDigits = 18
	for i, c := range text {
		if c < '0' || c > '9' || i == maxDigits {
			n, err := strconv.ParseInt(string(text), 10, 64)
			return n, err == nil
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(text) > 0
}

// truncate returns text from a client for use in an error: at most 64 bytes of it, as
// valid UTF-8.
func truncate(text []byte) string {
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
		clean[i] = printableByte(c)
	}
	return string(clean) + more
}

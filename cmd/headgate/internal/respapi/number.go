package respapi

import (
	"strconv"
	"unicode/utf8"
)

// parseInt reads a whole number of 64 bits as redis-cell does: an optional sign and digits. It allocates
// only for text that is no such number.
func parseInt(text []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
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

// Package suggest finds the valid name that a user most likely meant by a misspelled
// name.
package suggest

import "strings"

// maxLength is the number of bytes of a name that are compared. It bounds the cost of a
// very long name from an attacker.
const maxLength = 64

var joiners = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// Nearest returns the element of known that the user most likely meant by text, or ""
// if none is similar enough. At most two single-byte edits (insertion, deletion,
// change, swap of neighbors) must turn text into that element, or one edit if text has
// at most three bytes. Case and the characters "_", "-", "." and " " are ignored. If
// several elements are equally similar, the first is returned. The cost is that of
// len(known) comparisons of at most 64 bytes each.
func Nearest(text string, known []string) string {
	best, limit := "", 3
	plain := normalize(text)
	if len(plain) <= 3 {
		limit = 2
	}
	for _, name := range known {
		other := normalize(name)
		if max(len(plain)-len(other), len(other)-len(plain)) >= limit {
			continue // each edit changes the length by at most one byte
		}
		if d := distance(plain, other); d < limit {
			best, limit = name, d
		}
	}
	return best
}

// normalize returns s in lower case without the characters that separate words,
// shortened to maxLength bytes.
func normalize(s string) string {
	return joiners.Replace(strings.ToLower(s[:min(len(s), maxLength)]))
}

// distance returns the number of single-byte edits that turn a into b (optimal string
// alignment).
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range len(a) {
		before, last, next := rows[0], rows[1], rows[2]
		next[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(change, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		rows[0], rows[1], rows[2] = last, next, before
	}
	return rows[1][len(b)]
}

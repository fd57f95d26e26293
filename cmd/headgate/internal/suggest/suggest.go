// Package suggest finds the known name that a misspelled name most likely means.
package suggest

import "strings"

// maxLength is how many bytes of a name are compared: the rest of a hostile one costs
// nothing.
const maxLength = 64

var joiners = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// Nearest returns the name in known that text most likely means, or "" if none is
// close. A name is close if at most two single-byte edits (insert, delete, change,
// swap of neighbors) turn text into it; one edit if text has three bytes or fewer.
// Case and the characters "_", "-", "." and " " are ignored. Of equally close names
// the first wins. The cost is bounded by len(known) comparisons of 64 bytes.
func Nearest(text string, known []string) string {
	best, limit := "", 3
	plain := normalize(text)
	if len(plain) <= 3 {
		limit = 2
	}
	for _, name := range known {
		if d := distance(plain, normalize(name)); d < limit {
			best, limit = name, d
		}
	}
	return best
}

// normalize returns s in lower case without the characters that join words.
func normalize(s string) string {
	return joiners.Replace(strings.ToLower(s[:min(len(s), maxLength)]))
}

// distance is the number of single-byte edits that turn a into b (optimal string
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

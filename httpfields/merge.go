package httpfields

import (
	"strconv"
	"strings"
)

// Fields that are there already come from another middleware, perhaps one of this package, or from behind a proxy. A client must
// be able to read the result, so two forms of one field are never mixed, and of two families of single values the one with less
// remaining is told, whole.

// mayReplace reports whether our values are to stand in a family's fields, of which key holds what remains. What no client can
// read does not count. Of equals the first stays, or a denial.
func (p *pen) mayReplace(key string, told *report) bool {
	values := p.h[key]
	if len(values) != 1 {
		return true
	}
	number, _, _ := strings.Cut(values[0], ";") // behind it are parameters, which readers ignore
	theirs, err := strconv.ParseInt(strings.Trim(number, " \t"), 10, 64)
	return err != nil || theirs < 0 || told.weighsMore(theirs)
}

// weighsMore reports whether this answer is to be told rather than one with that much remaining.
func (r *report) weighsMore(theirs int64) bool {
	ours := r.remaining()
	return ours < theirs || ours == theirs && r.denied
}

// mayReplaceDictionary is mayReplace for the draft that has its family in one field. Lists of the draft of today count as well.
func (p *pen) mayReplaceDictionary(told *report) bool {
	theirs, found := leastRemaining(p.h[rateLimitKey])
	return !found || told.weighsMore(theirs)
}

// mayList reports whether a list of the draft of today can be appended to what is there. A dictionary of an earlier draft stays
// if it has less remaining, and makes room otherwise.
func (p *pen) mayList(told *report) bool {
	there := p.h[rateLimitKey]
	for _, value := range there {
		if isList(value) {
			continue
		}
		if theirs, found := leastRemaining(there); found && !told.weighsMore(theirs) {
			return false
		}
		delete(p.h, rateLimitKey)
		break
	}
	return true
}

// isList reports whether a value begins as a list of the draft of today does: with a string.
func isList(value string) bool { return strings.HasPrefix(strings.TrimLeft(value, " \t"), `"`) }

// leastRemaining is the least that a RateLimit field of any draft has remaining, as far as it can be read.
func leastRemaining(values []string) (least int64, found bool) {
	for _, value := range values {
		mark := "remaining="
		if isList(value) {
			mark, value = ";r=", strings.ReplaceAll(value, " ", "") // spaces may stand before a parameter
		}
		for {
			_, rest, more := strings.Cut(value, mark)
			if !more {
				break
			}
			if n, ok := leadingNumber(rest); ok && (!found || n < least) {
				least, found = n, true
			}
			value = rest
		}
	}
	return least, found
}

// leadingNumber is the number that a text begins with.
func leadingNumber(text string) (int64, bool) {
	end := 0
	for end < len(text) && end < 15 && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	return n, err == nil
}

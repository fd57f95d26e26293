package httpfields

import (
	"strconv"
	"strings"
)

// A header may already have rate limit fields, from another middleware, perhaps one
// that uses this package, or from an upstream server. The result must be readable for
// clients. So two forms of one field are never mixed. Of two families of single-valued
// fields, the family with less remaining is sent, complete.

// mayReplace reports whether our values replace those of a family that is already set.
// key is the family's field with the remaining units. Existing values that no client
// can parse are replaced. If both have the same remaining units, the existing values
// stay, unless ours are a denial.
func (fw *fieldWriter) mayReplace(key string, rep *report) bool {
	values := fw.h[key]
	if len(values) != 1 {
		return true
	}
	number, _, _ := strings.Cut(values[0], ";") // parameters follow, which clients ignore
	theirs, err := strconv.ParseInt(strings.Trim(number, " \t"), 10, 64)
	return err != nil || theirs < 0 || rep.isTighterThan(theirs)
}

// isTighterThan reports whether this report replaces one with theirs units remaining.
func (r *report) isTighterThan(theirs int64) bool {
	ours := r.remaining()
	return ours < theirs || ours == theirs && r.denied
}

// mayReplaceDictionary is mayReplace for the draft whose family is one field. Lists of
// the current draft count as well.
func (fw *fieldWriter) mayReplaceDictionary(rep *report) bool {
	theirs, found := leastRemaining(fw.h[rateLimitKey])
	return !found || rep.isTighterThan(theirs)
}

// mayAppendList reports whether a list of the current draft can be appended to the
// existing values. A dictionary of an earlier draft stays if it has less remaining, and
// is deleted otherwise.
func (fw *fieldWriter) mayAppendList(rep *report) bool {
	existing := fw.h[rateLimitKey]
	for _, value := range existing {
		if isList(value) {
			continue
		}
		if theirs, found := leastRemaining(existing); found && !rep.isTighterThan(theirs) {
			return false
		}
		delete(fw.h, rateLimitKey)
		break
	}
	return true
}

// isList reports whether a value begins with a string, as a list of the current draft
// does.
func isList(value string) bool { return strings.HasPrefix(strings.TrimLeft(value, " \t"), `"`) }

// leastRemaining returns the lowest remaining units in a RateLimit field of any draft.
// Values that cannot be parsed are ignored.
func leastRemaining(values []string) (least int64, found bool) {
	for _, value := range values {
		mark := "remaining="
		if isList(value) {
			// a parameter may follow spaces
			mark, value = ";r=", strings.ReplaceAll(value, " ", "")
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

// leadingNumber returns the number at the beginning of text, of at most 15 digits.
func leadingNumber(text string) (int64, bool) {
	end := 0
	for end < len(text) && end < 15 && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	return n, err == nil
}

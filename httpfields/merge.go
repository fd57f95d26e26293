package httpfields

import (
	"strconv"
	"strings"
)

// A header may already have rate limit fields from an upstream server or from another
// middleware, which may also use this package. The merged fields must be readable for
// clients, so two forms of one field are never mixed. Of two families of single-valued
// fields, only the one with fewer remaining units is sent, with all its fields.

// mayReplace reports whether the new values may replace those of a family that is
// already in the header. key is the name of the family's field for the remaining units.
// Existing values are replaced if they have more remaining units, or if no client can
// parse them. If both have the same number, the existing values stay, unless the new
// ones report a denial.
func (fw *fieldWriter) mayReplace(key string, rep *report) bool {
	values := fw.h[key]
	if len(values) != 1 {
		return true
	}
	number, _, _ := strings.Cut(values[0], ";") // clients ignore the parameters that may follow
	theirs, err := strconv.ParseInt(strings.Trim(number, " \t"), 10, 64)
	return err != nil || theirs < 0 || rep.isTighterThan(theirs)
}

// isTighterThan reports whether r replaces an existing report in which theirs units
// remain.
func (r *report) isTighterThan(theirs int64) bool {
	ours := r.remaining()
	return ours < theirs || ours == theirs && r.denied
}

// mayReplaceDictionary is like mayReplace, for the draft in which RateLimit is a
// dictionary. An existing list of the current draft is compared in the same way.
func (fw *fieldWriter) mayReplaceDictionary(rep *report) bool {
	theirs, found := leastRemaining(fw.h[rateLimitKey])
	return !found || rep.isTighterThan(theirs)
}

// mayAppendList reports whether a list of the current draft can be appended to the
// existing values. If the existing value is a dictionary of an earlier draft, it stays
// if it has fewer remaining units; otherwise mayAppendList deletes it.
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

// isList reports whether a value has the form of the current draft: a list, which
// begins with a string.
func isList(value string) bool { return strings.HasPrefix(strings.TrimLeft(value, " \t"), `"`) }

// leastRemaining returns the lowest number of remaining units in RateLimit values of
// any draft. It ignores values that cannot be parsed, and returns false if there is no
// other.
func leastRemaining(values []string) (least int64, found bool) {
	for _, value := range values {
		mark := "remaining="
		if isList(value) {
			// spaces may precede a parameter
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

// leadingNumber returns the number at the beginning of text. It reads at most 15
// digits.
func leadingNumber(text string) (int64, bool) {
	end := 0
	for end < len(text) && end < 15 && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	return n, err == nil
}

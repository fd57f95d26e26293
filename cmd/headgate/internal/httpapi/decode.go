package httpapi

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// inputError is an error in a request body.
type inputError struct {
	field  string // path of the field, such as checks[1].limit; empty for the body as a whole
	detail string // whole sentence
}

// Error returns the detail, which never contains a key.
func (e *inputError) Error() string { return e.detail }

// fields is a set of fields of a body or of a check.
type fields uint16

const (
	policyField fields = 1 << iota
	limitField
	algorithmField
	keyField
	costField
	checksField
	idField
	ttlField
	holdField
	holdsField
	actualField
)

// fieldNames are the names of the fields, by bit number.
var fieldNames = [...]string{"policy", "limit", "algorithm", "key", "cost", "checks", "id", "ttl", "hold", "holds", "actual"}

const (
	checkFields   = policyField | limitField | algorithmField | keyField | costField
	requestFields = checkFields | checksField // a check, or several
)

func fieldNamed(name string) fields {
	for i, known := range fieldNames {
		if name == known {
			return 1 << i
		}
	}
	return 0
}

// request is a decoded request body.
type request struct {
	checks  []engine.Check // strings in checks refer to the body where possible
	isArray bool           // whether the checks are in an array, so that paths of fields begin with checks[i]

	// For operations on holds only:
	id     string
	ttl    time.Duration
	holds  []engine.ClientHold // holds of the tokens in the body
	isList bool                // whether the body has a list of tokens
	actual []int64
	same   bool // whether actual has one cost, which is that of every check
}

// path returns the path, in the body, of a field of the check with the given index. If
// the check is from a token, it is the path of the token or of the actual cost.
func (r *request) path(index int, field string) string {
	switch {
	case len(r.holds) == 0 && r.isArray, index < 0:
		return checkPath(index, field)
	case len(r.holds) == 0:
		return field
	case field == "cost" && r.same:
		return "actual"
	case field == "cost":
		return "actual[" + strconv.Itoa(index) + "]"
	case !r.isList:
		return "hold"
	}
	for i := range r.holds {
		if index -= len(r.holds[i].Checks); index < 0 {
			return "holds[" + strconv.Itoa(i) + "]"
		}
	}
	return "holds"
}

// decode decodes a body into r and reuses the memory of r.checks. It accepts at most
// maxChecks checks, and tokens of at most maxHeld checks. Because a misinterpreted
// request could be allowed wrongly, decode is strict: it rejects unknown and duplicate
// fields, data after the object, and invalid UTF-8.
//
// It does not use package encoding/json, which accepts duplicate fields and uses the
// last one, ignores the case of names, and replaces invalid UTF-8, so that different
// keys become equal. Package encoding/json also does not report the path of an invalid
// field, and takes ten times as long.
func (r *request) decode(body string, accepted fields, maxChecks, maxHeld int) error {
	*r = request{checks: r.checks[:0], holds: r.holds[:0], actual: r.actual[:0]}
	d := decoder{text: body, maxChecks: maxChecks, maxHeld: maxHeld, check: -1, request: r}
	single, seen, err := d.body(accepted)
	if err == nil {
		err = d.completeBody(&single, seen, accepted)
	}
	r.isArray, r.isList = seen&checksField != 0, seen&holdsField != 0
	return err
}

// completeBody returns an error if the body lacks fields, or has fields that exclude each
// other. seen is the set of its fields. It adds the single check of a body without an
// array to the checks.
func (d *decoder) completeBody(single *engine.Check, seen, accepted fields) error {
	if missing := accepted &^ requestFields &^ idField &^ seen; missing != 0 {
		return d.fieldError(missing.first(), "is required")
	}
	switch {
	case accepted&checksField == 0:
		return nil
	case seen&checksField == 0:
		d.checks = append(d.checks, *single)
		return d.complete(single, seen)
	case seen&checkFields != 0:
		return d.fieldError((seen & checkFields).first(), "is not allowed next to checks; put it into each check")
	}
	return nil
}

// body decodes the whole body. It returns the single check of a body without an array,
// and the set of fields that the body contains.
func (d *decoder) body(accepted fields) (single engine.Check, seen fields, err error) {
	if d.skipSpace(); d.at == len(d.text) {
		return single, 0, &inputError{detail: `the body is empty; send an object such as {"limit":"10/s","key":"k"}`}
	}
	if !d.isNext('{') {
		return single, 0, d.wrongType("an object")
	}
	if single, seen, err = d.object(accepted); err != nil {
		return single, seen, err
	}
	if d.skipSpace(); d.at < len(d.text) {
		return single, seen, &inputError{detail: fmt.Sprintf("the body has unexpected data after the object, at byte %d", d.at)}
	}
	return single, seen, nil
}

// first returns the name of the first field in the set.
func (f fields) first() string {
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			return name
		}
	}
	return ""
}

// object decodes one check, or the whole body. The next byte must be the opening brace.
// It accepts only fields in the set accepted, and returns the set of the fields that it
// has seen.
func (d *decoder) object(accepted fields) (c engine.Check, seen fields, err error) {
	c.Cost = 1
	d.at++ // skips the brace
	for first := true; ; first = false {
		name, more, err := d.member(first)
		if err != nil || !more {
			return c, seen, err
		}
		f := fieldNamed(name) & accepted
		if f == 0 {
			return c, seen, d.unknownField(name, accepted)
		}
		if seen&f != 0 {
			return c, seen, &inputError{d.path(name), fmt.Sprintf("the body has a duplicate field %q", d.path(name))}
		}
		seen |= f
		if err := d.value(f, &c); err != nil {
			return c, seen, err
		}
	}
}

// value decodes the value of field f into c.
func (d *decoder) value(f fields, c *engine.Check) (err error) {
	d.field = f.first()
	switch f {
	case policyField:
		c.Policy, err = d.string()
	case limitField:
		c.Limit, err = d.string()
	case algorithmField:
		c.Algorithm, err = d.string()
	case keyField:
		c.Key, err = d.key()
	case costField:
		c.Cost, err = d.integer()
	case checksField:
		err = d.array()
	default:
		err = d.holdValue(f)
	}
	d.field = ""
	return err
}

// array decodes the array of checks.
func (d *decoder) array() error {
	if !d.next('[') {
		return d.wrongType("an array of checks")
	}
	d.field = ""
	for d.check = 0; ; d.check++ {
		if d.check == 0 && d.next(']') {
			return &inputError{"checks", `field "checks" is empty; must have at least one check`}
		}
		if d.check == d.maxChecks {
			return &inputError{"checks", fmt.Sprintf(`field "checks" must have at most %d checks`, d.maxChecks)}
		}
		if d.skipSpace(); !d.isNext('{') {
			return d.wrongType("an object")
		}
		c, seen, err := d.object(checkFields)
		if err != nil {
			return err
		}
		if err := d.complete(&c, seen); err != nil {
			return err
		}
		d.checks = append(d.checks, c)
		if d.next(']') {
			d.check = -1
			return nil
		}
		if !d.next(',') {
			return d.malformed("expected a comma or ]")
		}
	}
}

// complete returns an error if the check lacks fields or has fields that exclude each
// other. seen is the set of its fields.
func (d *decoder) complete(c *engine.Check, seen fields) error {
	switch {
	case seen&(policyField|limitField) == 0:
		return &inputError{d.path("policy"), fmt.Sprintf("field %q or %q is required", d.path("policy"), d.path("limit"))}
	case seen&policyField != 0 && seen&limitField != 0:
		return d.fieldError("limit", "is not allowed next to policy, which has its own limits; send one of them")
	case seen&policyField != 0 && seen&algorithmField != 0:
		return d.fieldError("algorithm", "is not allowed next to policy, which has its own algorithm")
	case seen&policyField != 0 && c.Policy == "":
		return d.fieldError("policy", "is empty; name a policy, or omit it and send a limit")
	case seen&keyField == 0:
		return d.fieldError("key", "is required (it may be an empty string)")
	}
	return nil
}

// fieldError returns an error for a field of the current check. The text is “field”,
// the path, and problem, which must complete the sentence.
func (d *decoder) fieldError(name, problem string) error {
	path := d.path(name)
	return &inputError{path, fmt.Sprintf("field %q %s", path, problem)}
}

// path returns the path, in the body, of a field of the current check.
func (d *decoder) path(name string) string { return checkPath(d.check, name) }

func checkPath(check int, name string) string {
	if check < 0 {
		return name
	}
	path := "checks[" + strconv.Itoa(check) + "]"
	if name == "" {
		return path
	}
	return path + "." + name
}

// unknownField returns an error for an unknown field name. The error suggests the most
// similar accepted name, if there is one.
func (d *decoder) unknownField(name string, accepted fields) error {
	path := d.path(truncate(name))
	var known []string
	for i, other := range fieldNames {
		if accepted&(1<<i) != 0 {
			known = append(known, other)
		}
	}
	if meant := suggest.Nearest(name, known); meant != "" {
		return &inputError{path, fmt.Sprintf("the body has an unknown field %q; did you mean %q?", path, meant)}
	}
	last := len(known) - 1
	if last == 0 {
		return &inputError{path, fmt.Sprintf("the body has an unknown field %q; must be %s", path, known[0])}
	}
	return &inputError{path, fmt.Sprintf("the body has an unknown field %q; must be %s or %s", path, strings.Join(known[:last], ", "), known[last])}
}

// truncate returns at most the first 40 bytes of a client's text, for use in an error.
func truncate(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

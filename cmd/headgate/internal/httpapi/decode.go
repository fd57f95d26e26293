package httpapi

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// inputError is a request that must change: what is wrong, and where in the body if it is in one place.
type inputError struct {
	field  string // a path such as checks[1].limit; empty for the body as a whole
	detail string
}

// Error is the detail behind its field. It never holds a key.
func (e *inputError) Error() string {
	if e.field == "" {
		return e.detail
	}
	return e.field + ": " + e.detail
}

// fields is a set of the fields that a body or one of its checks may have.
type fields uint8

const (
	policyField fields = 1 << iota
	limitField
	algorithmField
	keyField
	costField
	checksField
)

// fieldNames are the fields by their bits' numbers.
var fieldNames = [...]string{"policy", "limit", "algorithm", "key", "cost", "checks"}

func fieldNamed(name string) fields {
	for i, known := range fieldNames {
		if name == known {
			return 1 << i
		}
	}
	return 0
}

// request is what a body said.
type request struct {
	checks  []engine.Check // their strings are parts of the body where that is possible
	several bool           // they stood in an array, so a field's path begins with checks[i]
}

// path is where field of the check at index stands in the body.
func (r *request) path(index int, field string) string {
	if !r.several {
		index = -1
	}
	return checkPath(index, field)
}

// decode reads a body into r, whose checks' memory it uses again. It takes at most most checks. It is strict, because a
// limiter that misreads a request lets somebody through: no unknown fields, none twice, nothing behind the object, no text that
// is not UTF-8.
//
// Package encoding/json takes the last of two equal fields, matches names in any case, replaces invalid UTF-8 (which would
// make two keys one) and cannot say where a field went wrong; it also needs ten times as long.
func (r *request) decode(body string, most int) error {
	d := decoder{text: body, most: most, check: -1, checks: r.checks[:0]}
	single, seen, err := d.body()
	switch {
	case err != nil:
	case seen&checksField == 0:
		d.checks = append(d.checks, single)
		err = d.complete(&single, seen)
	case seen != checksField:
		err = d.wrong((seen &^ checksField).first(), "stands beside checks; put it into each of them")
	}
	r.checks, r.several = d.checks, seen&checksField != 0
	return err
}

// body reads the whole of it.
func (d *decoder) body() (single engine.Check, seen fields, err error) {
	if d.blank(); d.at == len(d.text) {
		return single, 0, &inputError{detail: `the body is empty; send an object such as {"limit":"10/s","key":"k"}`}
	}
	if !d.ahead('{') {
		return single, 0, d.wrongType("an object")
	}
	if single, seen, err = d.object(allFields); err != nil {
		return single, seen, err
	}
	if d.blank(); d.at < len(d.text) {
		return single, seen, &inputError{detail: fmt.Sprintf("more data behind the object, at byte %d", d.at)}
	}
	return single, seen, nil
}

const (
	allFields   = checksField<<1 - 1
	checkFields = allFields &^ checksField
)

// first is the name of the first field of the set.
func (f fields) first() string {
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			return name
		}
	}
	return ""
}

// object reads one check, or the body itself, from its opening brace on.
func (d *decoder) object(accepted fields) (c engine.Check, seen fields, err error) {
	c.Cost = 1
	d.at++ // the brace
	for first := true; ; first = false {
		name, more, err := d.member(first)
		if err != nil || !more {
			return c, seen, err
		}
		f := fieldNamed(name) & accepted
		if f == 0 {
			return c, seen, d.unknown(name, accepted)
		}
		if seen&f != 0 {
			return c, seen, d.wrong(name, "stands here twice")
		}
		seen |= f
		if err := d.value(f, &c); err != nil {
			return c, seen, err
		}
	}
}

// value reads what follows the name of field f.
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
		c.Key, err = d.string()
	case costField:
		c.Cost, err = d.whole()
	case checksField:
		err = d.array()
	}
	d.field = ""
	return err
}

// array reads the checks.
func (d *decoder) array() error {
	if !d.next('[') {
		return d.wrongType("an array of checks")
	}
	d.field = ""
	for d.check = 0; ; d.check++ {
		if d.check == 0 && d.next(']') {
			return &inputError{"checks", "is empty; at least one check is needed"}
		}
		if d.check == d.most {
			return &inputError{"checks", fmt.Sprintf("has more than %d checks", d.most)}
		}
		if d.blank(); !d.ahead('{') {
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

// complete refuses a check that says too little or contradicts itself.
func (d *decoder) complete(c *engine.Check, seen fields) error {
	switch {
	case seen&(policyField|limitField) == 0:
		return d.wrong("policy", "neither policy nor limit is there; one of them is needed")
	case seen&policyField != 0 && seen&limitField != 0:
		return d.wrong("limit", "stands beside policy, which has its own limit; send one of them")
	case seen&policyField != 0 && seen&algorithmField != 0:
		return d.wrong("algorithm", "stands beside policy, which has its own algorithm")
	case seen&policyField != 0 && c.Policy == "":
		return d.wrong("policy", "is empty; name a policy, or leave it out and send a limit")
	case seen&keyField == 0:
		return d.wrong("key", `is missing; "" is a key too`)
	}
	return nil
}

// wrong is an error about the field name of the check that is being read.
func (d *decoder) wrong(name, detail string) error {
	return &inputError{d.path(name), detail}
}

// path is where the field name of the check that is being read stands in the body.
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

// unknown refuses a field name and suggests the nearest accepted one.
func (d *decoder) unknown(name string, accepted fields) error {
	detail := "is no field of a check"
	if accepted&checksField != 0 {
		detail = "is no field of a request"
	}
	var known []string
	for i, other := range fieldNames {
		if accepted&(1<<i) != 0 {
			known = append(known, other)
		}
	}
	if meant := suggest.Nearest(name, known); meant != "" {
		return d.wrong(clip(name), detail+"; "+strconv.Quote(meant)+" is")
	}
	return d.wrong(clip(name), detail+"; there are "+strings.Join(known, ", "))
}

// clip bounds how much of a stranger's text an error repeats.
func clip(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

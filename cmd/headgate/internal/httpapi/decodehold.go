package httpapi

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/answerfields"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// maxHolds is the maximum number of holds, and of actual costs, in one request.
const maxHolds = 1000

// holdValue decodes the value of a field that only operations on holds have.
func (d *decoder) holdValue(f fields) (err error) {
	switch f {
	case idField:
		d.id, err = d.string()
	case ttlField:
		d.ttl, err = d.duration()
	case holdField:
		err = d.token()
	case holdsField:
		err = d.list(d.token)
	case actualField:
		if d.skipSpace(); d.isNext('-') || d.isDigit() {
			d.same = true
			return d.actualCost()
		}
		if !d.isNext('[') {
			return d.wrongType("an array or a whole number")
		}
		err = d.list(d.actualCost)
	}
	return err
}

// duration reads a duration as text.
func (d *decoder) duration() (time.Duration, error) {
	text, err := d.string()
	if err != nil {
		return 0, err
	}
	ttl, err := time.ParseDuration(text)
	if err != nil {
		return 0, d.fieldError(d.field, fmt.Sprintf("is %q; must be a duration such as 30s, 10m or 1h", truncate(text)))
	}
	return ttl, nil
}

// token reads the token of a hold.
func (d *decoder) token() error {
	text, err := d.string()
	if err != nil {
		return err
	}
	h, err := engine.ParseHold(text, d.maxHeld)
	if err != nil {
		return &inputError{d.current(), answerfields.Sentence(engine.Reason(err))}
	}
	d.holds = append(d.holds, h)
	return nil
}

func (d *decoder) actualCost() error {
	n, err := d.integer()
	d.actual = append(d.actual, n)
	return err
}

// list reads a list of at least one element, each of which read reads.
func (d *decoder) list(read func() error) error {
	name := d.field
	if !d.next('[') {
		return d.wrongType("an array")
	}
	for i := 0; ; i++ {
		if i == 0 && d.next(']') {
			return d.fieldError(name, "is empty; must have at least one element")
		}
		if i == maxHolds {
			return d.fieldError(name, fmt.Sprintf("must have at most %d elements", maxHolds))
		}
		d.field = fmt.Sprintf("%s[%d]", name, i)
		if err := read(); err != nil {
			return err
		}
		if d.field = name; d.next(']') {
			return nil
		}
		if !d.next(',') {
			return d.malformed("expected a comma or ]")
		}
	}
}

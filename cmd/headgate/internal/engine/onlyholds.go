package engine

import (
	"fmt"

	"github.com/headgate/headgate"
)

// checkHoldRequired returns a [*CheckError] if verb would take or refund units that only
// a hold can take. Nothing has been charged then.
func (a *Answer) checkHoldRequired(verb headgate.Verb) error {
	if verb != headgate.Take && verb != headgate.Refund {
		return nil
	}
	for _, c := range [...]*charges{&a.enforced, &a.shadowed} {
		for i, r := range c.rules {
			if !r.onlyHolds {
				continue
			}
			return &CheckError{Index: c.checks[i], Field: limitFieldOf(r), Err: errCheckRequiresHold(r.Name)}
		}
	}
	return nil
}

// limitFieldOf returns the name of the field of a check that selects the limit of a rule.
func limitFieldOf(r *Rule) string {
	if r.Policy != "" {
		return "policy"
	}
	return "limit"
}

// errCheckRequiresHold returns the error for a check whose limit with the given name
// counts concurrent work. It matches [headgate.ErrHoldRequired].
func errCheckRequiresHold(name string) error {
	return fmt.Errorf("%w: %q limits concurrent work, so a check could never return its slot; open a hold before the work"+
		" and end it afterwards, with /v1/hold and /v1/commit or HG.HOLD and HG.COMMIT", headgate.ErrHoldRequired, name)
}

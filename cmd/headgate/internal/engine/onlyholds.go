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
			if r.onlyHolds {
				return &CheckError{Index: c.checks[i], Field: "policy", Err: ErrCheckOfHolds(r.Name)}
			}
		}
	}
	return nil
}

// ErrCheckOfHolds returns the error for a check, or the configuration of one, whose limit
// with the given name counts concurrent work. It matches [headgate.ErrHoldRequired].
func ErrCheckOfHolds(name string) error {
	return fmt.Errorf("%w: %q limits concurrent work, which a check cannot end; open a hold before the work"+
		" and end it afterwards, with /v1/hold and /v1/commit or HG.HOLD and HG.COMMIT", headgate.ErrHoldRequired, name)
}

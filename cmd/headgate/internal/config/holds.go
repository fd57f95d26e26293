package config

import (
	"fmt"
	"maps"
	"slices"
)

// checkMaxOpen returns an error for each policy with more open holds of a key than the
// configured store permits.
func (s *Sources) checkMaxOpen(c *Config) (errs Errors) {
	if s.MaxOpenHolds == nil {
		return nil
	}
	most := s.MaxOpenHolds(c.Store)
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		if n := c.Policies[name].Holds.MaxOpen; n > most {
			path := join(join(join("policies", plain(name)), "holds"), "max_open")
			at := c.parsed.at[path]
			errs = append(errs, &Error{
				Source: c.parsed.Source, Line: at.line, Column: at.column, Path: path,
				Message: fmt.Sprintf("%d is above the maximum of the store, %d; reduce it, or use another store", n, most),
			})
		}
	}
	return errs
}

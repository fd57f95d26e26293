package config

import (
	"errors"
	"slices"
	"strconv"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// Refused is err with the places in the file of what it is about, if that is policies that an engine refused: [Errors] then. Other errors
// are as they were.
func (c *Config) Refused(err error) error {
	all := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		all = several.Unwrap()
	}
	var placed Errors
	for _, one := range all {
		e := (*engine.PolicyError)(nil)
		if c.parsed == nil || !errors.As(one, &e) {
			return err
		}
		if wrong := c.parsed.refused(e); !slices.ContainsFunc(placed, func(said *Error) bool { return *said == *wrong }) {
			placed = append(placed, wrong) // a policy's limits can each be refused for its algorithm
		}
	}
	return placed.orNil()
}

// refused says where the file names what a policy was refused for, or else the policy.
func (p *Parsed) refused(e *engine.PolicyError) *Error {
	policy := join("policies", plain(e.Policy))
	list, limits := join(policy, "limits"), p.File.Policies[e.Policy].Limits
	if e.Overridden {
		key := "key:" + e.Key
		list, limits = join(join(policy, "overrides"), plain(key)), p.File.Policies[e.Policy].Overrides[key]
	}
	path, message := policy, e.Err.Error()
	switch {
	case e.Field == "limits" && e.Limit < len(limits):
		path, message = list+"["+strconv.Itoa(e.Limit)+"]", refusalOf(limits[e.Limit], e.Err)
	case p.sets(join(policy, e.Field)):
		path = join(policy, e.Field)
	}
	at := p.at[path]
	return &Error{Source: p.Source, Line: at.line, Column: at.column, Path: path, Message: message}
}

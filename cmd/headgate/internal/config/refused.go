package config

import (
	"errors"
	"slices"
	"strconv"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// Refused converts errors of the engine about policies to [Errors] with positions in
// the configuration file. It returns other errors unchanged.
func (c *Config) Refused(err error) error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var located Errors
	for _, one := range all {
		e := (*engine.PolicyError)(nil)
		if c.parsed == nil || !errors.As(one, &e) {
			return err
		}
		wrong := c.parsed.locate(e)
		known := slices.ContainsFunc(located, func(e *Error) bool { return *e == *wrong })
		if !known { // several limits of a policy can cause the same error
			located = append(located, wrong)
		}
	}
	return located.orNil()
}

// locate converts an error about a policy. The returned error has the position of the
// invalid value, or the position of the policy if that of the value is unknown.
func (p *Parsed) locate(e *engine.PolicyError) *Error {
	policy := join("policies", plain(e.Policy))
	list, limits := join(policy, "limits"), p.File.Policies[e.Policy].Limits
	if e.Override != "" {
		list = join(join(policy, "overrides"), plain(e.Override))
		limits = p.File.Policies[e.Policy].Overrides[e.Override]
	}
	path, message := policy, e.Err.Error()
	switch {
	case e.Field == "limits" && e.Limit < len(limits):
		path = list + "[" + strconv.Itoa(e.Limit) + "]"
		message = limitMessage(p.limits[path], e.Err)
	case p.sets(join(policy, e.Field)):
		path = join(policy, e.Field)
	}
	at := p.at[path]
	return &Error{
		Source: p.Source, Line: at.line, Column: at.column, Path: path, Message: message,
	}
}

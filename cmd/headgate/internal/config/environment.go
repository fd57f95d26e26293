package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// FileVariable is the environment variable with the path of the configuration file. The
// flag --config overrides it.
const FileVariable = Prefix + "CONFIG"

// serviceLinks matches the variables that Kubernetes sets in every container of a
// namespace that has a Service named headgate or headgate-…, and the variables that
// Docker's --link sets for a container with such a name.
var serviceLinks = regexp.MustCompile(`^` + Prefix +
	`([A-Z0-9_]+?_)??(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR|(PORT_)?(START|END)))?)?|NAME|ENV_.+)$`)

// unknownEnv returns an error for each variable with the prefix HEADGATE_ that is not a
// setting, because an unknown key in the file is an error, too. It accepts variables
// that Kubernetes and Docker set.
func (s *Sources) unknownEnv(c *Config) (errs Errors) {
	known := []string{FileVariable}
	if c.parsed != nil {
		known = append(known, c.parsed.File.tokenVariables()...)
	}
	for i := range settings {
		known = append(known, settings[i].Env)
	}
	for _, variable := range slices.Sorted(slices.Values(s.Environ)) {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, Prefix) || value == "" || slices.Contains(known, name) {
			continue
		}
		switch link := serviceLinks.FindStringSubmatch(name); {
		case link != nil && link[2] == "PORT" && !strings.Contains(value, "://"):
			// if Kubernetes or Docker had set the variable, its value would be a URL
			c.Warnings = append(c.Warnings, name+" is not a setting and has no effect; "+
				"set HEADGATE_HTTP_ADDR, HEADGATE_RESP_ADDR or HEADGATE_GRPC_ADDR")
		case link != nil && (link[2] != "NAME" || strings.HasPrefix(value, "/")):
			// Docker sets NAME to the path of the link
		case slices.Contains(s.Others, name):
			c.Warnings = append(c.Warnings, name+" is for another command and has no effect here")
		default:
			errs = append(errs, &Error{Source: shorten(name), Message: unknownVariable(name, known)})
		}
	}
	return errs
}

// unknownVariable returns the error message for a variable that is not a setting, with
// a suggestion if a known name is similar.
func unknownVariable(name string, known []string) string {
	nearest := suggest.Nearest(name, known)
	if nearest == "" {
		suffix := strings.TrimPrefix(name, strings.TrimSuffix(Prefix, "_"))
		i := slices.IndexFunc(known, func(k string) bool { return strings.HasSuffix(k, suffix) })
		if i >= 0 {
			nearest = known[i]
		}
	}
	if nearest != "" {
		return "unknown setting; did you mean " + nearest + "?"
	}
	return "unknown setting; headgate config print lists all settings; " +
		"other variables must not begin with " + Prefix
}

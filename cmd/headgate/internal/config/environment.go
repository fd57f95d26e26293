package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// FileVariable names the file, as --config does.
const FileVariable = Prefix + "CONFIG"

// ofOthers are variables that Kubernetes sets in every container of a namespace that has a Service called headgate, or headgate-…, and
// Docker's --link for a container of such a name.
var ofOthers = regexp.MustCompile(`^` + Prefix + `([A-Z0-9_]+?_)??(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR|(PORT_)?(START|END)))?)?|NAME|ENV_.+)$`)

// strangers refuses variables that are called as a setting is and set none, as unknown keys of a file are refused. What Kubernetes and
// Docker set is left alone.
func (s *Sources) strangers(c *Config) (errs Errors) {
	known := []string{FileVariable}
	for i := range settings {
		known = append(known, settings[i].Env)
	}
	for _, variable := range slices.Sorted(slices.Values(s.Environ)) {
		name, value, _ := strings.Cut(variable, "=")
		switch linked := ofOthers.FindStringSubmatch(name); {
		case !strings.HasPrefix(name, Prefix) || value == "" || slices.Contains(known, name):
		case linked != nil && linked[2] == "PORT" && !strings.Contains(value, "://"): // which Kubernetes would have written
			c.Warnings = append(c.Warnings, name+" sets nothing; HEADGATE_HTTP_ADDR and its like say where to listen")
		case linked != nil && (linked[2] != "NAME" || strings.HasPrefix(value, "/")): // which is how Docker names a link
		case slices.Contains(s.Others, name):
			c.Warnings = append(c.Warnings, name+" is for another command and sets nothing here")
		default:
			errs = append(errs, &Error{Source: clipped(name), Message: unknownVariable(name, known)})
		}
	}
	return errs
}

// unknownVariable says what was meant by a variable that sets nothing.
func unknownVariable(name string, known []string) string {
	if meant := suggest.Nearest(name, known); meant != "" {
		return "there is no such setting; did you mean " + meant + "?"
	}
	for _, k := range known {
		if strings.HasSuffix(k, strings.TrimPrefix(name, strings.TrimSuffix(Prefix, "_"))) {
			return "there is no such setting; did you mean " + k + "?"
		}
	}
	return "there is no such setting; headgate config print names all there are, and other variables had better not begin with " + Prefix
}

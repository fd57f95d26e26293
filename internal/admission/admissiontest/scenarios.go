package admissiontest

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// table has every scenario, and explains its own format.
//
//go:embed scenarios.txt
var table string

// scenario is a list of requests and the expected result.
type scenario struct {
	name     string
	together bool
	mode     headgate.OnStoreError // empty means that the store is not wrapped by package fallback
	down, up time.Duration         // the store is unavailable from down until up
	policies []headgate.Policy
	requests []request
	left     []int64 // expected remaining units of each policy; empty means any
	stay     []int64 // the same for callers that charge all policies together; empty means left
}

// request is one request of a scenario. The fields are times since the start; 0 in
// leaves or deadline means none. The request is expected to proceed at the time ahead.
type request struct{ arrives, leaves, deadline, ahead time.Duration }

// never is the value of request.ahead if the request is never allowed to proceed.
const never = -time.Millisecond

// scenarios parses the table of scenarios.
func scenarios() (all []*scenario, err error) {
	for n, line := range strings.Split(table, "\n") {
		line, _, _ = strings.Cut(line, "#")
		keyword, value, _ := strings.Cut(line, " ")
		value = strings.TrimSpace(value)
		switch {
		case keyword == "":
		case keyword == "scenario":
			all = append(all, &scenario{name: value})
		case len(all) == 0:
			err = errors.New("line must follow a scenario line")
		default:
			err = all[len(all)-1].parse(keyword, value)
		}
		if err != nil {
			return nil, fmt.Errorf("scenarios.txt:%d: %q: %w", n+1, line, err)
		}
	}
	return all, nil
}

// parse parses one line of a scenario.
func (s *scenario) parse(keyword, value string) (err error) {
	switch fields := strings.Fields(value); {
	case keyword == "together" && value == "":
		s.together = true
	case keyword == "fallback" && len(fields) == 3 && len(s.policies) == 0:
		s.mode = headgate.OnStoreError(fields[0])
		return errors.Join(s.mode.Validate(), parseInstants(fields[1:], &s.down, &s.up))
	case keyword == "policy" && len(fields) > 2:
		_, limits, _ := strings.Cut(value, fields[1]+" ")
		p := headgate.MustPolicy(strings.Split(limits, ", ")...)
		p.Name, p.Algorithm, p.OnStoreError = fields[0], headgate.Algorithm(fields[1]), s.mode
		s.policies = append(s.policies, p)
	case keyword == "request" && len(fields) == 4:
		var r request
		err = parseInstants(fields, &r.arrives, &r.leaves, &r.deadline, &r.ahead)
		s.requests = append(s.requests, r)
	case keyword == "left" && len(fields) <= len(s.policies):
		s.left, err = parseUnits(fields)
	case keyword == "stay" && len(fields) <= len(s.policies):
		s.stay, err = parseUnits(fields)
	default:
		return errors.New("unknown keyword, wrong number of values, or wrong order")
	}
	return err
}

func parseUnits(fields []string) ([]int64, error) {
	units := make([]int64, len(fields))
	var failed error
	for i, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		units[i], failed = n, errors.Join(failed, err)
	}
	return units, failed
}

// parseInstants parses each field into the corresponding instant. “-” leaves it
// unchanged.
func parseInstants(fields []string, instants ...*time.Duration) (err error) {
	for i, field := range fields {
		switch field {
		case "-":
		case "never":
			*instants[i] = never
		default:
			if *instants[i], err = time.ParseDuration(field); err != nil {
				return err
			}
		}
	}
	return nil
}

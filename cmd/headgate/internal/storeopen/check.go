package storeopen

import (
	"context"
	"strings"

	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/redisstore"
)

// Finding is one thing that [Check] looked at: what, how bad it is, what that costs, and what to do about it.
type Finding = redisstore.Finding

// The levels of a finding.
const (
	Fine    = redisstore.Fine
	Warning = redisstore.Warning
	Failing = redisstore.Failing
)

// Check looks at the store of a URL and says what is wrong with it; see [redisstore.Diagnose] and [memcachedstore.Diagnose]. The error
// is that of a URL that cannot be read.
func Check(ctx context.Context, rawURL string) ([]Finding, error) {
	switch name := Name(rawURL); {
	case name == memory:
		if _, err := memoryOptions(rawURL); err != nil {
			return nil, err
		}
		return []Finding{{Check: "memory", Level: Fine, Says: "in this process: it is never away, and a restart forgets it"}}, nil
	case name == memcached:
		servers, _, err := memcachedOptions(rawURL)
		if err != nil {
			return nil, err
		}
		found, err := memcachedstore.Diagnose(ctx, servers...)
		if err != nil {
			return nil, &Error{name, reason(err, "memcachedstore: "), err}
		}
		all := make([]Finding, len(found))
		for i, f := range found {
			all[i] = Finding{Check: f.Check, Level: redisstore.Level(f.Level), Says: f.Says, Advice: f.Advice}
		}
		return all, nil
	case strings.HasPrefix(name, "redis"):
		found, err := redisstore.Diagnose(ctx, rawURL)
		if err != nil {
			return nil, &Error{name, reason(err, "redisstore: ", "invalid URL: "), err}
		}
		return found, nil
	default:
		return nil, &Error{name, known, nil}
	}
}

package storeopen

import (
	"context"
	"strings"

	"github.com/headgate/headgate/internal/diagnosis"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/redisstore"
)

// Finding is the result of one check of [Check]: the check, its level, the cost and
// the advice.
type Finding = diagnosis.Finding

// Level is the level of a finding.
type Level = diagnosis.Level

// The levels of a finding.
const (
	Fine    = diagnosis.Fine
	Warning = diagnosis.Warning
	Failing = diagnosis.Failing
)

// Check diagnoses the store at rawURL; see [redisstore.Diagnose],
// [memcachedstore.Diagnose] and [memstore.CheckFolder]. It returns an error only if the
// URL is invalid.
func Check(ctx context.Context, rawURL string) ([]Finding, error) {
	switch name := Name(rawURL); {
	case name == memory:
		return checkMemory(rawURL)
	case name == memcached:
		servers, opts, err := memcachedOptions(rawURL)
		if err != nil {
			return nil, err
		}
		found, err := memcachedstore.Diagnose(ctx, opts, servers...)
		if err != nil {
			return nil, &Error{name, reason(err, "memcachedstore: "), err}
		}
		return found, nil
	case strings.HasPrefix(name, "redis"):
		found, err := redisstore.Diagnose(ctx, rawURL)
		if err != nil {
			return nil, &Error{name, reason(err, "redisstore: ", "invalid URL: "), err}
		}
		return found, nil
	default:
		return nil, &Error{name, supportedURLs, nil}
	}
}

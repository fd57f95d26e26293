// Package stores compares rate limiters that store their state in Redis or memcached.
// In a comparison, all limiters use the same server.
//
// README.md of the module documents what is compared and what cannot be compared.
package stores

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
)

// Limiter is a rate limiter with one limit for every key. Allow may be called
// concurrently. An error means that the limiter could not decide.
type Limiter interface {
	Allow(ctx context.Context, key string) (bool, error)
	Close() error
}

// Row describes how to create one of the limiters that are compared.
type Row struct {
	// Name identifies the row in tables and flags.
	Name string
	// New returns a limiter that uses the server at addr.
	New func(addr string, limit bench.Limit) (Limiter, error)
	// Floor is true for a row that decides nothing. It shows the minimum cost of a
	// decision.
	Floor bool
	// Window is true for a limiter that counts in windows of [bench.Limit.Window], which
	// begin at multiples of their length. In several processes, a limiter without it has
	// a token bucket.
	Window bool
}

// Redis returns the rows for Redis. All other rows are compared with the first row.
func Redis() []Row {
	return []Row{
		{Name: "headgate", New: redisstoreRow(batched)},
		{Name: "headgate, batching and denial cache off", New: redisstoreRow(unbatched)},
		{Name: "redis_rate", New: newRedisRate},
		{Name: "ulule", New: newUlule},
		{Name: "throttled", New: newThrottled},
		{Name: "rueidis counter", New: newCounter},
		{Name: "headgate's reads and writes alone", New: newFloor, Floor: true},
		{Name: "a script: TIME, GET, SET", New: newScript(timeGetSet), Floor: true},
		{Name: "an empty script", New: newScript(empty), Floor: true},
	}
}

// OneCaller returns the rows for a single caller: the rows for Redis, and a replay of
// headgate's script calls without headgate's code.
func OneCaller() []Row {
	return append(Redis(), Row{Name: "headgate's script alone", New: newReplay, Floor: true})
}

// Holds returns the rows that compare holds with takes.
func Holds() []Row {
	return []Row{
		{Name: "take", New: redisstoreRow(batched)},
		{Name: "hold", New: holdRow(false)},
		{Name: "hold and commit", New: holdRow(true)},
	}
}

// Memcached returns the rows for memcached.
func Memcached() []Row {
	return []Row{
		{Name: "headgate", New: memcachedRow(true)},
		{Name: "headgate, joining off", New: memcachedRow(false)},
		{Name: "a bucket behind a lock key", New: newLockKey},
	}
}

// Named returns the rows with the given names, separated by semicolons. It returns all
// rows if names is empty.
func Named(rows []Row, names string) ([]Row, error) {
	if names == "" {
		return rows, nil
	}
	var found []Row
	var known []string
	for _, r := range rows {
		known = append(known, r.Name)
	}
	for name := range strings.SplitSeq(names, ";") {
		for _, r := range rows {
			if r.Name == strings.TrimSpace(name) {
				found = append(found, r)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("stores: unknown rows %q; must be among %s", names, strings.Join(known, "; "))
	}
	return found, nil
}

// Hot is the limit for a single key that is never denied: the burst is 100 million
// tokens, and few tokens are refilled during a measurement.
var Hot = bench.Limit{Count: 1_000_000, Per: time.Hour, Burst: 100_000_000}

// Many is the limit for many keys. The burst is so large that no key runs out of
// tokens. A token is refilled in 10 s, so that few keys are full again when they are
// next used.
var Many = bench.Limit{Count: 360, Per: time.Hour, Burst: 100_000}

// subject is a row and the limiter that it created.
type subject struct {
	row     Row
	limiter Limiter
}

// open creates the limiter of every row on the server s. The rows use different keys.
func open(rows []Row, s *server.Server, limit bench.Limit) ([]subject, error) {
	var all []subject
	for _, r := range rows {
		l, err := r.New(s.Addr, limit)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("stores: %s: %w", r.Name, err), closeAll(all))
		}
		all = append(all, subject{r, l})
	}
	return all, nil
}

func closeAll(all []subject) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.limiter.Close())
	}
	return errors.Join(errs...)
}

// policy converts a bench.Limit to a headgate.Policy.
func policy(limit bench.Limit) headgate.Policy {
	return headgate.Policy{Limits: []headgate.Limit{{Rate: int64(limit.Count), Period: limit.Per, Burst: int64(limit.Burst)}}}
}

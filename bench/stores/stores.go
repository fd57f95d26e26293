// Package stores puts limiters whose state is in Redis or memcached to the same work, each over the same server.
//
// What is compared, and what cannot be, is told in the module's README.md.
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

// Limiter is one limiter under one limit. Allow may be called concurrently; an error says that it could not decide.
type Limiter interface {
	Allow(ctx context.Context, key string) (bool, error)
	Close() error
}

// Row is a limiter that can be measured.
type Row struct {
	// Name is what tables and flags call it.
	Name string
	// New makes it over the server at addr.
	New func(addr string, limit bench.Limit) (Limiter, error)
	// Floor says that it is no limiter but what one cannot be without.
	Floor bool
}

// Redis lists what is measured over Redis; the first is what the others are compared with.
func Redis() []Row {
	return []Row{
		{Name: "headgate", New: redisstoreRow(joined)},
		{Name: "headgate, joining and memory of denials off", New: redisstoreRow(alone)},
		{Name: "redis_rate", New: newRedisRate},
		{Name: "ulule", New: newUlule},
		{Name: "throttled", New: newThrottled},
		{Name: "rueidis counter", New: newCounter},
		{Name: "a script: TIME, GET, SET", New: newScript(timeGetSet), Floor: true},
		{Name: "an empty script", New: newScript(empty), Floor: true},
	}
}

// OneCaller lists what is measured with a single caller: also headgate's own script calls, sent again without headgate.
func OneCaller() []Row {
	return append(Redis(), Row{Name: "headgate's script alone", New: newReplay, Floor: true})
}

// Memcached lists what is measured over memcached.
func Memcached() []Row {
	return []Row{
		{Name: "headgate", New: memcachedRow(true)},
		{Name: "headgate, joining off", New: memcachedRow(false)},
		{Name: "a bucket behind a lock key", New: newLockKey},
	}
}

// Named are those of rows with the given names, separated by semicolons; all for "".
func Named(rows []Row, names string) ([]Row, error) {
	if names == "" {
		return rows, nil
	}
	var found []Row
	for name := range strings.SplitSeq(names, ";") {
		for _, r := range rows {
			if r.Name == strings.TrimSpace(name) {
				found = append(found, r)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("stores: no row is called %q", names)
	}
	return found, nil
}

// Hot is the limit for a single key that is never denied: 100 million at once, of which little comes back while it is measured.
var Hot = bench.Limit{Count: 1_000_000, Per: time.Hour, Burst: 100_000_000}

// Many is the limit for many keys: enough at once that none runs dry, and a unit comes back in 10 s, so that few are as if never
// used before their next turn.
var Many = bench.Limit{Count: 360, Per: time.Hour, Burst: 100_000}

// subject is a row with its limiter.
type subject struct {
	row     Row
	limiter Limiter
}

// open makes every row's limiter over s; what rows keep there does not meet.
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

// policy is a bench limit as headgate takes it.
func policy(limit bench.Limit) headgate.Policy {
	return headgate.Policy{Limits: []headgate.Limit{{Rate: int64(limit.Count), Period: limit.Per, Burst: int64(limit.Burst)}}}
}

package bench

import "go.uber.org/ratelimit"

// uber is go.uber.org/ratelimit, which paces callers: it has no keys, never denies, and
// sleeps instead. Its rate is so high that it never sleeps. The row measures its
// bookkeeping on one key, whatever the intended denial rate.
type uber struct{ limiter ratelimit.Limiter }

func newUber(Limit, int) (Limiter, error) {
	return uber{ratelimit.New(1_000_000_000)}, nil
}

func (u uber) Allow(string) bool {
	u.limiter.Take()
	return true
}

func (uber) Drain(string) {}

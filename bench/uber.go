package bench

import "go.uber.org/ratelimit"

// uber is go.uber.org/ratelimit, which has no keys and never denies: it sleeps until
// the next request is allowed. The rate is so high that it never sleeps here. The row
// shows the cost of a check on one key, whatever the intended denial rate is.
type uber struct{ limiter ratelimit.Limiter }

func newUber(Limit, int) (Limiter, error) {
	return uber{ratelimit.New(1_000_000_000)}, nil
}

func (u uber) Allow(string) bool {
	u.limiter.Take()
	return true
}

func (uber) Drain(string) {}

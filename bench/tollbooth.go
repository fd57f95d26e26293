package bench

import "github.com/didip/tollbooth/v8/limiter"

// tollbooth is the limiter of github.com/didip/tollbooth/v8, called directly and not
// through its HTTP handler. It has a copy of x/time/rate for each key, in an expiring
// map with a single lock.
type tollbooth struct {
	limiter *limiter.Limiter
	burst   int
}

func newTollbooth(limit Limit, _ int) (Limiter, error) {
	return tollbooth{limiter.New(nil).SetMax(limit.PerSecond()).SetBurst(limit.Burst), limit.Burst}, nil
}

func (t tollbooth) Allow(key string) bool { return !t.limiter.LimitReached(key) }

// Drain creates the bucket of key with a burst of one token and takes that token. This
// is necessary because a bucket keeps the burst with which it was created. Drain works
// only if key has no bucket, and must not be called concurrently with Allow.
func (t tollbooth) Drain(key string) {
	t.limiter.SetBurst(1)
	t.limiter.LimitReached(key)
	t.limiter.SetBurst(t.burst)
}

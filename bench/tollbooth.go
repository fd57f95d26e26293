package bench

import "github.com/didip/tollbooth/v8/limiter"

// tollbooth is the limiter of github.com/didip/tollbooth/v8, called directly and not
// through its HTTP handler. It keeps a copy of x/time/rate for each key in an expiring
// map with one lock.
type tollbooth struct {
	limiter *limiter.Limiter
	burst   int
}

func newTollbooth(limit Limit, _ int) (Limiter, error) {
	return tollbooth{limiter.New(nil).SetMax(limit.PerSecond()).SetBurst(limit.Burst), limit.Burst}, nil
}

func (t tollbooth) Allow(key string) bool { return !t.limiter.LimitReached(key) }

// Drain creates the key's bucket with a burst of one and takes the token, because a
// bucket keeps the burst that it was created with. It works only for keys without a
// bucket, and not concurrently with Allow.
func (t tollbooth) Drain(key string) {
	t.limiter.SetBurst(1)
	t.limiter.LimitReached(key)
	t.limiter.SetBurst(t.burst)
}

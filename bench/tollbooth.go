package bench

import "github.com/didip/tollbooth/v8/limiter"

// tollbooth is github.com/didip/tollbooth/v8's limiter, asked directly rather than through its HTTP handler: a copy of
// x/time/rate for each key in an expiring map under one lock.
type tollbooth struct {
	limiter *limiter.Limiter
	burst   int
}

func newTollbooth(limit Limit, _ int) (Limiter, error) {
	return tollbooth{limiter.New(nil).SetMax(limit.PerSecond()).SetBurst(limit.Burst), limit.Burst}, nil
}

func (t tollbooth) Allow(key string) bool { return !t.limiter.LimitReached(key) }

// Drain makes the key's bucket with room for one unit and takes it: a bucket keeps the size it was made with. Only keys that
// were never asked for can be drained, and not while others are.
func (t tollbooth) Drain(key string) {
	t.limiter.SetBurst(1)
	t.limiter.LimitReached(key)
	t.limiter.SetBurst(t.burst)
}

package bench

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// xtime is golang.org/x/time/rate with a sync.Map that has a limiter for each key, as
// most programs use it. It never removes a key from the map.
type xtime struct {
	limiters sync.Map // string → *rate.Limiter
	rate     rate.Limit
	burst    int
}

func newXTime(limit Limit, _ int) (Limiter, error) {
	return &xtime{rate: rate.Limit(limit.PerSecond()), burst: limit.Burst}, nil
}

func (x *xtime) limiter(key string) *rate.Limiter {
	if l, ok := x.limiters.Load(key); ok {
		return l.(*rate.Limiter)
	}
	l, _ := x.limiters.LoadOrStore(key, rate.NewLimiter(x.rate, x.burst))
	return l.(*rate.Limiter)
}

func (x *xtime) Allow(key string) bool { return x.limiter(key).Allow() }

func (x *xtime) Drain(key string) {
	x.limiter(key).AllowN(time.Now(), x.burst)
}

package bench

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// ours is a token bucket in the embedded store. It is used through headgate.Limiter, as
// in a typical program. MaxEntries is the number of keys; all other settings have their
// defaults.
type ours struct {
	limiter *headgate.Limiter
	burst   int64
}

func newHeadgate(limit Limit, keys int) (Limiter, error) {
	store := memstore.New(&memstore.Options{MaxEntries: keys})
	policy := headgate.Policy{Limits: []headgate.Limit{{
		Rate: int64(limit.Count), Period: limit.Per, Burst: int64(limit.Burst),
	}}}
	l, err := headgate.New(store, policy, nil)
	return &ours{l, int64(limit.Burst)}, err
}

func (o *ours) Allow(key string) bool {
	d, err := o.limiter.Allow(context.Background(), key)
	return err == nil && d.Allowed
}

func (o *ours) Drain(key string) { _, _ = o.limiter.AllowN(context.Background(), key, o.burst) }

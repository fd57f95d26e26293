package storetest

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// noTTL is the TTL of a key that does not expire.
const noTTL = -time.Microsecond

// ttlOf returns the TTL that the reference would set on a server for the state of key;
// 0 if the state need not be stored.
func (b *refBound) ttlOf(key string, c cell, t int64) time.Duration {
	ttl := micros.Duration(b.resetAt(c) - t)
	before, known := b.store.cells[b.id(key)]
	switch {
	case ttl <= 0 && !b.store.has(peekStoresKey):
		return 0
	case b.store.has(ttlMissing), b.store.has(ttlNotRestored) && known && before.ttl == noTTL:
		return noTTL
	case b.store.has(ttlInSeconds) && ttl < time.Second:
		return noTTL
	case b.store.has(ttlInSeconds):
		return ttl.Truncate(time.Second)
	case b.store.has(ttlTooLong):
		return ttl + 10*headgate.MaxPeriod
	}
	return max(ttl, time.Millisecond)
}

func (b *refBound) resetAt(c cell) int64 {
	switch {
	case b.logs == nil:
		return b.step.ResetAt(c.state)
	case c.log == nil:
		return b.logs.ResetAt(&algo.Log{})
	default:
		return b.logs.ResetAt(c.log)
	}
}

func (r *reference) ttls() (map[string]time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ttls := make(map[string]time.Duration)
	for id, c := range r.cells {
		if c.ttl != 0 {
			ttls[id] = c.ttl
		}
	}
	return ttls, nil
}

func (r *reference) removeTTL(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cells[id]
	c.ttl = noTTL
	r.cells[id] = c
	return nil
}

package storetest

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// forEver is the life of a key that has none.
const forEver = -time.Microsecond

// lifeOf is how long the reference would ask a server to keep the state of key; 0 if it need not be kept at all.
func (b *refBound) lifeOf(key string, c cell, t int64) time.Duration {
	life := micros.Duration(b.resetAt(c) - t)
	before, known := b.store.cells[b.id(key)]
	switch {
	case life <= 0 && !b.store.has(keepsAsked):
		return 0
	case b.store.has(livesForEver), b.store.has(keepsLost) && known && before.life == forEver:
		return forEver
	case b.store.has(livesInSeconds) && life < time.Second:
		return forEver
	case b.store.has(livesInSeconds):
		return life.Truncate(time.Second)
	case b.store.has(livesTooLong):
		return life + 10*headgate.MaxPeriod
	}
	return max(life, time.Millisecond)
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

func (r *reference) lives() (map[string]time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lives := make(map[string]time.Duration)
	for id, c := range r.cells {
		if c.life != 0 {
			lives[id] = c.life
		}
	}
	return lives, nil
}

func (r *reference) persist(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cells[id]
	c.life = forEver
	r.cells[id] = c
	return nil
}

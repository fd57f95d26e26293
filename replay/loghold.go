package replay

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// holdName identifies a hold of a replay.
type holdName struct{ key, id string }

// logHolds are the holds that the operations of a log have opened under one policy. A
// hold is kept until its deadline, also after it has ended. Of an expired hold, only the
// hash of its name is kept, in one of two sets: when recent is full, it replaces older.
// So the memory is limited by the number of holds before their deadlines at a time.
type logHolds struct {
	mu            sync.Mutex
	open          map[holdName]*headgate.Hold
	sweepAt       int // number of holds in open at which expired ones are removed
	recent, older map[uint64]struct{}
	maxRecent     int
}

const (
	firstSweep        = 1 << 10 // number of holds before the first sweep
	expiredHoldBytes  = 32      // maximum memory of the name of an expired hold, in bytes
	expiredHoldsShare = 16      // the names of one policy have this part of [Options].Memory
)

// newLogHolds returns an empty value. memory is the memory for the names of expired
// holds, in bytes.
func newLogHolds(memory int64) *logHolds {
	return &logHolds{
		open: map[holdName]*headgate.Hold{}, sweepAt: firstSweep,
		recent: map[uint64]struct{}{}, maxRecent: int(memory / 2 / expiredHoldBytes),
	}
}

// add adds a hold that was opened. It copies the name, so that the memory of the request
// can be released.
func (s *logHolds) add(name holdName, h *headgate.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[holdName{strings.Clone(name.key), name.id}] = h
}

// find returns the hold with a name. expired is true if it is not kept because it has
// expired. If h is nil and expired is false, no such hold was opened, or its name was
// removed from both sets.
func (s *logHolds) find(name holdName) (h *headgate.Hold, expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.open[name]; h != nil {
		return h, false
	}
	hash := maphash.Comparable(hashSeed, name)
	_, recent := s.recent[hash]
	_, older := s.older[hash]
	return nil, recent || older
}

// sweep removes the holds that have expired at the time now, if the number of holds has
// doubled since the last call that removed any. The mean cost of a hold is constant.
func (s *logHolds) sweep(now time.Time) {
	if len(s.open) < s.sweepAt {
		return
	}
	for name, h := range s.open {
		if !h.ExpiresAt().After(now) {
			delete(s.open, name)
			s.addExpired(name)
		}
	}
	s.sweepAt = max(firstSweep, 2*len(s.open))
}

// addExpired adds a name to those of the expired holds.
func (s *logHolds) addExpired(name holdName) {
	if len(s.recent) >= s.maxRecent {
		s.older, s.recent = s.recent, map[uint64]struct{}{}
	}
	s.recent[maphash.Comparable(hashSeed, name)] = struct{}{}
}

// findHold returns the hold of a request. For an expired hold, it is a hold with the
// deadline now, whose methods return the error for it.
func (l *policyReplay) findHold(now time.Time, q *request) (*headgate.Hold, error) {
	h, expired := l.holds.find(holdName{q.key, q.op.ID})
	if h != nil {
		return h, nil
	}
	id, err := headgate.HoldIDOf(q.op.ID)
	if err != nil || !expired {
		return nil, headgate.ErrUnknownHold
	}
	return headgate.ResumeHold(id, now, headgate.Check{Limiter: l.limiter, Key: q.key}), nil
}

func (l *policyReplay) openHold(ctx context.Context, now time.Time, q *request, ttl time.Duration) (headgate.Decision, bool, error) {
	check := headgate.Check{Limiter: l.limiter, Key: q.key, Cost: q.op.Cost}
	h, err := headgate.HoldAllAt(ctx, now, &headgate.HoldOptions{ID: q.op.ID, TTL: ttl}, check)
	if err != nil {
		return headgate.Decision{}, false, err
	}
	if h.OK() && !h.Replayed() {
		l.holds.add(holdName{q.key, q.op.ID}, h)
	}
	return h.Decision(), h.Replayed(), nil
}

package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// maxRecords is the maximum number of open holds, and of records of ended ones, in
// checkEndedHolds.
const maxRecords = 3

// endedPlayer opens, commits and repeats holds of one key, on the store and on the model.
type endedPlayer struct {
	*tester
	limiter *headgate.Limiter
	model   *model.Holds
	holds   map[string]*headgate.Hold
	at      int64
	step    int64
	trace   string
}

// checkEndedHolds tests that a key keeps a bounded number of ended holds: those with the
// latest deadlines.
func checkEndedHolds(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	limit := "1000000/24h"
	if a.OnlyHolds() {
		limit = "1000000 concurrent"
	}
	p := &endedPlayer{tester: ts, model: model.NewHolds(a), holds: map[string]*headgate.Hold{}, at: int64(start)}
	p.model.Ended.Max = maxRecords
	p.limiter = ts.limiterFor(headgate.Policy{
		Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}, Holds: headgate.HoldSettings{MaxOpen: maxRecords},
	})
	l := p.limiter.Policy().Limits[0]
	for p.step = range int64(4 * ts.stateCount()) {
		p.at += p.random.Int64N(2_000_000)
		p.model.Begin(l, p.at)
		if id := fmt.Sprint("hold ", p.random.IntN(12)); p.model.IsOpen(id) && p.random.IntN(2) == 0 {
			p.trace += fmt.Sprintf("\n%d commit %s", p.at, id)
			_, err := p.holds[id].CommitAt(background, headgate.Instant(p.at).Time(), 1)
			p.mustf(err, "%s:%s", describe(p.limiter), p.trace)
			p.model.Commit(l, p.at, id, 1)
		} else {
			p.request(l, id)
		}
	}
}

// request opens a hold, or repeats the request of a hold.
func (p *endedPlayer) request(l headgate.Limit, id string) {
	ttl := p.random.Int64N(60_000)*1000 + 1_000_000
	ttl -= (p.at + ttl) % 1000
	ttl += p.step // all deadlines differ
	p.trace += fmt.Sprintf("\n%d hold %s ttl %d µs", p.at, id, ttl)
	deadline, known := p.model.Ended.Deadline(id, p.at)
	if p.model.IsOpen(id) {
		deadline, known = p.model.Deadline(id), true
	}
	h, err := headgate.HoldAllAt(background, headgate.Instant(p.at).Time(),
		&headgate.HoldOptions{ID: id, TTL: time.Duration(ttl) * time.Microsecond}, headgate.Check{Limiter: p.limiter, Key: "key", Cost: 1})
	switch {
	case known:
		if err != nil || !h.Replayed() || h.ExpiresAt() != headgate.Instant(deadline).Time() {
			p.failf("%s:%s\ngot %+v, error %v want replayed with the deadline %d", describe(p.limiter), p.trace, h, err, deadline)
		}
	case p.model.Open() >= maxRecords:
		if !errors.Is(err, headgate.ErrTooManyHolds) {
			p.failf("%s:%s\ngot %+v, error %v want ErrTooManyHolds", describe(p.limiter), p.trace, h, err)
		}
	default:
		if err != nil || h.Replayed() || !h.OK() {
			p.failf("%s:%s\ngot %+v, error %v want a new hold", describe(p.limiter), p.trace, h, err)
		}
		p.model.Hold(l, p.at, id, 1, p.at+ttl)
		p.holds[id] = h
	}
}

package storetest

import (
	"fmt"

	"github.com/headgate/headgate"
)

// keyPlayer plays a random trace of operations under one limit.
type keyPlayer struct {
	*tester
	limit headgate.Limit
	at    int64 // instant of the next operation, in µs
	trace string
	last  headgate.Decision // the latest decision of a peek
}

// newKeyPlayer returns a player that begins with an unused key.
func (ts *tester) newKeyPlayer(l headgate.Limit) keyPlayer {
	unused := headgate.Decision{Limit: l.Capacity(), Remaining: l.Capacity()}
	return keyPlayer{tester: ts, limit: l, at: int64(start) + ts.random.Int64N(1e12), last: unused}
}

// advance moves the time on to that of the next operation. This is often an instant at
// which something changes, for example untilDeadline() µs later.
func (p *keyPlayer) advance(untilDeadline func() int64) {
	r := p.random
	switch r.IntN(6) {
	case 0:
		p.at += p.last.RetryAfter.Microseconds()
	case 1:
		p.at += logUniform(r, 1+p.last.ResetAfter.Microseconds())
	case 2:
		p.at += logUniform(r, 2*periodOf(p.limit))
	case 3:
		p.at += untilDeadline()
	}
}

func (p *keyPlayer) tracef(format string, args ...any) {
	p.trace += fmt.Sprintf("\n%d ", p.at) + fmt.Sprintf(format, args...)
}

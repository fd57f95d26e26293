package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/history"
)

// The number of operations that each client executes. A client may have only few
// operations of unknown outcome, because they make a history slow to check. During a
// fault, all operations of a client are at the same instant, because that makes equal
// requests interchangeable in the check.
const (
	opsBefore    = 4 // before the fault
	maxOpsDuring = 8 // maximum between the beginning of the fault and the recovery
	maxUnknown   = 2 // maximum of operations with unknown outcome during the fault
	answersAfter = 4 // answered operations after the recovery
)

// client is one of several concurrent callers of one key.
type client struct {
	round  *round
	sub    *subject
	number int
	store  headgate.Store
	bounds []headgate.Bound // by limit, bound to store
	random *rand.Rand
	last   history.Request // last operation of holds
	frozen bool            // whether the instant of the operations does not advance
}

// runClient executes operations before, during and after the fault. n is the number of
// the key, number is the number of the client.
func (s *round) runClient(n int, sub *subject, number int) {
	suite := &s.run.suite
	c := &client{
		round: s, sub: sub, number: number, store: s.run.stores[number%len(s.run.stores)],
		random: rand.New(rand.NewPCG(suite.Seed, uint64(s.run.histories+n)<<16|uint64(number))),
	}
	for _, all := range sub.bounds {
		c.bounds = append(c.bounds, all[number%len(s.run.stores)])
	}
	for i := range opsBefore {
		if i == opsBefore-1 {
			s.ready.Done() // the fault is injected during the next operations
		}
		c.do()
		c.sleep(5 * time.Millisecond)
	}
	c.during()
	<-s.recovered
	c.after()
}

func (c *client) during() {
	unknown := 0
	c.frozen = true
	for range maxOpsDuring {
		select {
		case <-c.round.recovered:
			return
		default:
		}
		if c.do() == history.Unknown {
			unknown++
		}
		if unknown == maxUnknown {
			return
		}
		c.sleep(c.round.run.fault.Duration / 4)
	}
}

// after executes operations until answersAfter of them were answered. It records an
// error if there is no answer within RecoverWithin after the recovery.
func (c *client) after() {
	for answered := 0; answered < answersAfter; {
		if c.do() == history.Answered {
			if answered++; answered == 1 {
				c.recordRecovery()
			}
			c.frozen = false
			continue
		}
		c.frozen = true
		if waited := time.Since(c.round.recoveredAt); waited > c.round.run.fault.RecoverWithin {
			c.round.recordError(fmt.Errorf("no answer %v after the recovery; history of the key:\n%v", waited.Round(time.Millisecond), c.sub.log))
			return
		}
		c.sleep(100 * time.Millisecond)
	}
}

func (c *client) recordRecovery() {
	waited := int64(time.Since(c.round.recoveredAt))
	for slowest := &c.round.slowestRecovery; ; {
		if known := slowest.Load(); known >= waited || slowest.CompareAndSwap(known, waited) {
			return
		}
	}
}

// do executes one operation and returns its outcome. It records an error if the
// operation takes longer than its deadline and Suite.Grace.
func (c *client) do() history.Outcome {
	deadline := c.round.run.fault.Deadline
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	begin := time.Now()
	outcome, err := c.send(ctx)
	c.round.recordError(err)
	if took := time.Since(begin); took > deadline+c.round.run.suite.Grace {
		c.round.recordError(fmt.Errorf("an operation with a deadline of %v took %v", deadline, took))
	}
	return outcome
}

// send executes a random request.
func (c *client) send(ctx context.Context) (history.Outcome, error) {
	suite := &c.round.run.suite
	switch {
	case suite.Holds && c.random.IntN(4) > 0:
		return c.sub.log.DoHold(ctx, c.number, c.store.(headgate.HoldStore), c.bounds[0], c.sub.key, c.holdRequest())
	case suite.Bans && c.random.IntN(6) == 0:
		r := history.Request{At: c.instant(), Cost: banUnits, Hold: history.Hold{ID: 1, Verb: headgate.Debit}}
		return c.sub.log.DoHold(ctx, c.number, c.store.(headgate.HoldStore), c.bounds[0], c.sub.key, r)
	case suite.Overrides:
		r, n := c.request(), c.random.IntN(len(c.bounds))
		r.Limit = c.sub.limits[n]
		return c.sub.log.Do(ctx, c.number, c.bounds[n], c.sub.key, r)
	}
	return c.sub.log.Do(ctx, c.number, c.bounds[0], c.sub.key, c.request())
}

// holdRequest returns a random operation of holds, or repeats the client's last one. The
// clients of a key use the same ids, mostly with the same number of units.
func (c *client) holdRequest() history.Request {
	if c.last.Hold.ID > 0 && c.random.IntN(3) == 0 {
		return c.last
	}
	id := byte(1 + c.random.IntN(6))
	r := history.Request{At: c.instant(), Hold: history.Hold{ID: id}}
	n := c.random.IntN(20)
	if c.sub.onlyHolds {
		n = c.random.IntN(18) // no debits
	}
	switch {
	case n < 8:
		r.Cost = 1 + int64(id)%3
	case n < 9:
		r.Cost = 4
	case n < 16:
		r.Hold.Verb, r.Cost = headgate.CommitHold, c.random.Int64N(4)
	case n < 18:
		r.Hold.Verb = headgate.ExtendHold
	case n < 19:
		r.Hold.Verb, r.Cost = headgate.TakeUpTo, 1+c.random.Int64N(3)
	default:
		r.Hold.Verb, r.Cost = headgate.Debit, 1
	}
	c.last = r
	return r
}

// request returns a random request. Most requests are takes.
func (c *client) request() history.Request {
	r := history.Request{At: c.instant(), Cost: 1 + c.random.Int64N(2)}
	suite := &c.round.run.suite
	switch n := c.random.IntN(20); {
	case n < 2 || c.sub.onlyHolds:
		r.Verb = headgate.Peek
	case n < 5 && !suite.TakesOnly:
		r.Verb = headgate.Refund
	case n < 6 && !suite.TakesOnly && !(suite.Holds && suite.NoResets):
		r.Verb, r.Cost = headgate.Reset, 0
	}
	return r
}

func (c *client) instant() headgate.Instant {
	step := c.random.Int64N(c.sub.stride + 1)
	if c.frozen {
		step = 0
	}
	return noon + headgate.Instant(min(c.sub.now.Add(step), window-1))
}

func (c *client) sleep(limit time.Duration) {
	time.Sleep(time.Duration(c.random.Int64N(int64(limit) + 1)))
}

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/history"
)

// How often each client asks. What is of unknown outcome makes a history slow to explain, so few of a client's may be, and while a
// fault is on the instant stands still: what asks for the same at one instant is alike.
const (
	askedBefore = 4 // times before the fault
	askedDuring = 8 // at most, from then until it is over
	unknownMost = 2 // of them
	askedAfter  = 4 // answered, when it is over
)

// client is one caller of one key.
type client struct {
	scene  *scene
	sub    *subject
	number int
	bound  headgate.Bound
	random *rand.Rand
	still  bool // the instant stands still
}

// client asks before, during and after the fault.
func (s *scene) client(n int, sub *subject, number int) {
	suite := &s.run.suite
	c := &client{
		scene: s, sub: sub, number: number, bound: sub.bounds[number%len(sub.bounds)],
		random: rand.New(rand.NewPCG(suite.Seed, uint64(s.run.histories+n)<<16|uint64(number))),
	}
	for i := range askedBefore {
		if i == askedBefore-1 {
			s.ready.Done() // so that what follows is under way when it strikes
		}
		c.ask()
		c.pause(5 * time.Millisecond)
	}
	c.during()
	<-s.over
	c.after()
}

func (c *client) during() {
	unknown := 0
	c.still = true
	for range askedDuring {
		select {
		case <-c.scene.over:
			return
		default:
		}
		if c.ask() == history.Unknown {
			unknown++
		}
		if unknown == unknownMost {
			return
		}
		c.pause(c.scene.run.fault.Hold / 4)
	}
}

// after asks until it was answered often enough, and wants that soon.
func (c *client) after() {
	for answered := 0; answered < askedAfter; {
		if c.ask() == history.Answered {
			if answered++; answered == 1 {
				c.noteBack()
			}
			c.still = false
			continue
		}
		c.still = true
		if waited := time.Since(c.scene.healed); waited > c.scene.run.fault.Back {
			c.scene.note(fmt.Errorf("not answered %v after the fault was over; its key's history:\n%v", waited.Round(time.Millisecond), c.sub.log))
			return
		}
		c.pause(100 * time.Millisecond)
	}
}

func (c *client) noteBack() {
	waited := int64(time.Since(c.scene.healed))
	for slowest := &c.scene.slowest; ; {
		if known := slowest.Load(); known >= waited || slowest.CompareAndSwap(known, waited) {
			return
		}
	}
}

// ask does one operation.
func (c *client) ask() history.Outcome {
	deadline := c.scene.run.fault.Deadline
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	began := time.Now()
	outcome, err := c.sub.log.Do(ctx, c.number, c.bound, c.sub.key, c.request())
	c.scene.note(err)
	if took := time.Since(began); took > deadline+c.scene.run.suite.Grace {
		c.scene.note(fmt.Errorf("an operation with a deadline of %v took %v", deadline, took))
	}
	return outcome
}

// request is mostly a take.
func (c *client) request() history.Request {
	r := history.Request{At: c.instant(), Cost: 1 + c.random.Int64N(2)}
	switch n := c.random.IntN(20); {
	case n < 2:
		r.Verb = headgate.Peek
	case n < 5 && !c.scene.run.suite.TakesOnly:
		r.Verb = headgate.Refund
	case n < 6 && !c.scene.run.suite.TakesOnly:
		r.Verb, r.Cost = headgate.Reset, 0
	}
	return r
}

func (c *client) instant() headgate.Instant {
	step := c.random.Int64N(c.sub.stride + 1)
	if c.still {
		step = 0
	}
	return noon + headgate.Instant(min(c.sub.now.Add(step), window-1))
}

func (c *client) pause(most time.Duration) {
	time.Sleep(time.Duration(c.random.Int64N(int64(most) + 1)))
}

package algo_test

import (
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "seed of every random test")
	stepsFlag = flag.Int("steps", 2_000_000, "steps in which the Go and the Lua text of all algorithms together are compared")
)

// TestGoMatchesLua does random steps over the whole domain with both texts of
// every algorithm: states and answers must be equal to the last bit.
func TestGoMatchesLua(t *testing.T) {
	steps := *stepsFlag
	if raceDetector || testing.Short() {
		steps = min(steps, 60_000) // one goroutine, pure functions: the race detector has nothing to find here
	}
	all := algo.All()
	each := (steps + len(all) - 1) / len(all)
	t.Logf("seed %d, %d steps each; other runs: go test ./algo -run %s -seed N -steps N", *seedFlag, each, t.Name())
	for i, a := range all {
		t.Run(string(a.Name), func(t *testing.T) {
			t.Parallel()
			lua, err := newLuaTwin(a, asItStands(a))
			if err != nil {
				t.Fatal(err)
			}
			seen, difference := compare(a, lua, newDice(*seedFlag, uint64(i)), each)
			if difference != "" {
				t.Fatalf("seed %d: %s", *seedFlag, difference)
			}
			t.Log(seen)
			seen.mustCoverEverything(t, a)
		})
	}
}

// coverage counts what the steps of a comparison were, so that a generator gone lame is
// noticed.
type coverage struct {
	steps, admitted, denied, never, booked, cancelled, backwards, changed, undone int
}

func (c *coverage) mustCoverEverything(t *testing.T, a algo.Algorithm) {
	t.Helper()
	tenth, hundredth := c.steps/10, c.steps/100
	for name, got := range map[string]struct{ n, least int }{
		"admitted": {c.admitted, tenth}, "denied": {c.denied, tenth}, "never": {c.never, hundredth},
		"backwards": {c.backwards, hundredth}, "changed limit": {c.changed, hundredth},
		"undone": {c.undone, hundredth},
	} {
		if got.n < got.least {
			t.Errorf("got %d steps of kind %s in %+v, want at least %d", got.n, name, *c, got.least)
		}
	}
	if books(a) && (c.booked < hundredth || c.cancelled < c.steps/1000) {
		t.Errorf("got %d bookings ahead and %d cancelled in %+v, want more", c.booked, c.cancelled, *c)
	}
}

func books(a algo.Algorithm) bool {
	if a.New == nil {
		return false
	}
	s, err := a.New(headgate.MustParseLimit("1/s"))
	if err != nil {
		panic(err)
	}
	_, ok := s.(algo.Reserver)
	return ok
}

// compare drives both twins through steps, a new key every so often, and describes the
// first difference; none is "".
func compare(a algo.Algorithm, lua *luaTwin, d dice, steps int) (coverage, string) {
	c := comparison{dice: d, algorithm: a, lua: lua, books: books(a)}
	for c.seen.steps < steps {
		if difference := c.life(min(steps-c.seen.steps, 40)); difference != "" {
			return c.seen, difference
		}
	}
	return c.seen, ""
}

// comparison is a key's life as both twins see it.
type comparison struct {
	dice
	algorithm algo.Algorithm
	golang    goTwin
	lua       *luaTwin
	books     bool
	limit     headgate.Limit
	at        int64
	want, got result
	bookings  []step // the cancels of what was booked
	takes     []step // the undos of what was taken
	seen      coverage
}

func (c *comparison) life(steps int) string {
	c.golang.forget()
	c.lua.forget()
	c.bind(c.dice.limit(c.algorithm))
	c.at, c.bookings, c.takes = c.instant(), c.bookings[:0], c.takes[:0]
	c.want.decision = headgate.Decision{Remaining: c.limit.Capacity(), Limit: c.limit.Capacity()}
	for range steps {
		if c.oneIn(25) {
			c.bind(c.changed(c.algorithm, c.limit))
			c.seen.changed++
		}
		if difference := c.compareOne(c.nextStep()); difference != "" {
			return difference
		}
	}
	return ""
}

func (c *comparison) bind(l headgate.Limit) {
	c.limit = l
	c.golang.bind(c.algorithm, l)
	c.lua.bind(c.algorithm, l)
}

func (c *comparison) nextStep() *step {
	last := c.want.decision
	now := c.after(c.at, c.limit, last)
	if now < c.at {
		c.seen.backwards++
	}
	c.at = now
	s := &step{verb: pick(c.dice, take, take, take, take, take, peek, refund), t: now, n: c.cost(last.Limit, last.Remaining), room: !c.oneIn(6)}
	switch {
	case c.books && c.oneIn(4):
		s.verb, s.n = reserve, min(s.n, 2*headgate.MaxUnits)
		s.maxDelay = pick(c.dice, 0, hundredYear, c.want.booked, max(0, c.want.booked-1), c.scaled(1, hundredYear))
	case len(c.bookings) > 0 && c.oneIn(4):
		i := max(0, len(c.bookings)-1-c.IntN(2))
		s, c.bookings = &c.bookings[i], slices.Clone(c.bookings[:i])
		s.t = now
	case len(c.takes) > 0 && c.oneIn(4):
		s = c.undoOne()
	case s.verb == refund && c.oneIn(20):
		s.n = maxExact
	}
	return s
}

// undoOne is the undoing of one of the last takes: soon after it more often than not,
// as it was or with something else in it.
func (c *comparison) undoOne() *step {
	i := max(0, len(c.takes)-1-c.IntN(4))
	s := c.takes[i]
	s.t = c.at
	switch c.IntN(8) {
	case 0:
		s.n = c.upTo(2 * s.n)
	case 1:
		s.n = c.scaled(1, maxExact)
	case 2:
		s.t0, s.mark.A = c.at, c.golang.state.A
	case 3, 4, 5:
		s.t = min(maxInstant, s.t0+c.scaled(1, c.limit.Period.Microseconds()))
		c.at = s.t
	}
	c.takes = slices.Clone(c.takes[:i])
	return &s
}

func (c *comparison) compareOne(s *step) string {
	before, counted := c.golang.state, c.golang.list.Counted()
	c.golang.do(s, &c.want)
	err := c.lua.do(s, &c.got)
	c.seen.count(s, &c.want, before != c.golang.state || counted != c.golang.list.Counted())
	if s.verb == reserve && c.want.ok && s.n > 0 {
		c.bookings = append(c.bookings, step{verb: cancel, n: s.n, mark: c.golang.state})
	}
	if s.verb == take && c.want.ok && s.n > 0 {
		c.takes = append(c.takes, c.undoOf(s, before))
	}
	if err == nil && c.want.equals(&c.got) {
		return ""
	}
	return fmt.Sprintf("%s under %v from state %v:\n%v\n got in Lua %v (%v)\nwant as Go %v", c.algorithm.Name, c.limit, before, s, &c.got, err, &c.want)
}

// undoOf is the step that undoes s, which has just been taken.
func (c *comparison) undoOf(s *step, was algo.State) step {
	u := step{verb: undo, n: s.n, t0: s.t, was: was, mark: c.golang.state}
	if n := len(c.want.log); n > 0 {
		u.t0 = c.want.log[n-1][0]
	}
	return u
}

func (r *result) equals(o *result) bool {
	return r.ok == o.ok && r.booked == o.booked && r.resetAt == o.resetAt && r.state == o.state && slices.Equal(r.log, o.log) &&
		reflect.DeepEqual(r.decision, o.decision)
}

func (c *coverage) count(s *step, r *result, moved bool) {
	c.steps++
	switch d := r.decision; {
	case d.Never:
		c.never++
	case !d.Allowed:
		c.denied++
	case s.n > 0 && (s.verb == take || s.verb == peek):
		c.admitted++
	}
	if s.verb == reserve && r.ok && r.booked > 0 {
		c.booked++
	}
	if s.verb == cancel && moved {
		c.cancelled++
	}
	if s.verb == undo && moved {
		c.undone++
	}
}

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
	stepsFlag = flag.Int("steps", 400_000, "steps in which the Go and the Lua text of all algorithms together are compared; holds have half as many")
)

// TestGoMatchesLua executes random steps over the whole accepted range with the Go and
// the Lua implementation of every algorithm. States and decisions must be identical.
func TestGoMatchesLua(t *testing.T) {
	steps := *stepsFlag
	if raceDetector || testing.Short() {
		steps = min(steps, 40_000) // one goroutine, pure functions: no data races to detect
	}
	all := algo.Rates()
	each := (steps + len(all) - 1) / len(all)
	t.Logf("seed %d, %d steps each; other runs: go test ./algo -run %s -seed N -steps N", *seedFlag, each, t.Name())
	for i, a := range all {
		t.Run(string(a.Name), func(t *testing.T) {
			t.Parallel()
			lua, err := newLuaStepper(a, unchangedText(a))
			if err != nil {
				t.Fatal(err)
			}
			seen, difference := compare(a, lua, newGenerator(*seedFlag, uint64(i)), each)
			if difference != "" {
				t.Fatalf("seed %d: %s", *seedFlag, difference)
			}
			t.Log(seen)
			seen.requireCoverage(t, a)
		})
	}
}

// coverage counts the kinds of steps of a comparison, so that the test fails if the
// generator no longer produces all of them.
type coverage struct {
	steps, admitted, denied, never, booked, cancelled, backwards, changed, undone int
}

func (c *coverage) requireCoverage(t *testing.T, a algo.Algorithm) {
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
	if canReserve(a) && (c.booked < hundredth || c.cancelled < c.steps/1000) {
		t.Errorf("got %d bookings ahead and %d cancelled in %+v, want more", c.booked, c.cancelled, *c)
	}
}

func canReserve(a algo.Algorithm) bool {
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

// compare executes steps with both implementations, on a new key from time to time. It
// describes the first difference; "" means there was none.
func compare(a algo.Algorithm, lua *luaStepper, d generator, steps int) (coverage, string) {
	c := comparison{generator: d, algorithm: a, lua: lua, books: canReserve(a)}
	for c.seen.steps < steps {
		if difference := c.runKey(min(steps-c.seen.steps, 40)); difference != "" {
			return c.seen, difference
		}
	}
	return c.seen, ""
}

// comparison executes the requests of one key with both implementations.
type comparison struct {
	generator
	algorithm algo.Algorithm
	golang    goStepper
	lua       *luaStepper
	books     bool
	limit     headgate.Limit
	at        int64
	want, got result
	bookings  []step // cancels of the reservations
	takes     []step // undos of the takes
	seen      coverage
}

func (c *comparison) runKey(steps int) string {
	c.golang.forget()
	c.lua.forget()
	c.bind(c.generator.limit(c.algorithm))
	c.at, c.bookings, c.takes = c.instant(), c.bookings[:0], c.takes[:0]
	c.want.decision = headgate.Decision{Remaining: c.limit.Capacity(), Limit: c.limit.Capacity()}
	for range steps {
		if c.oneIn(25) {
			c.bind(c.changed(c.algorithm, c.limit))
			c.seen.changed++
		}
		if difference := c.compareStep(c.nextStep()); difference != "" {
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
	s := &step{verb: pick(c.generator, take, take, take, take, take, peek, refund), t: now, n: c.cost(last.Limit, last.Remaining), room: !c.oneIn(6)}
	switch {
	case c.books && c.oneIn(4):
		s.verb, s.n = reserve, min(s.n, 2*headgate.MaxUnits)
		s.maxDelay = pick(c.generator, 0, hundredYear, c.want.booked, max(0, c.want.booked-1), c.scaled(1, hundredYear))
	case len(c.bookings) > 0 && c.oneIn(4):
		i := max(0, len(c.bookings)-1-c.IntN(2))
		s, c.bookings = &c.bookings[i], slices.Clone(c.bookings[:i])
		s.t = now
	case len(c.takes) > 0 && c.oneIn(4):
		s = c.nextUndo()
	case s.verb == refund && c.oneIn(20):
		s.n = maxExact
	}
	return s
}

// nextUndo returns an undo of one of the last takes, usually soon after it. Some undos
// have an altered field.
func (c *comparison) nextUndo() *step {
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
		s.t = min(maxInstant, s.t0+c.scaled(1, windowOf(c.limit)))
		c.at = s.t
	}
	c.takes = slices.Clone(c.takes[:i])
	return &s
}

func (c *comparison) compareStep(s *step) string {
	before, counted := c.golang.state, c.golang.list.Counted()
	c.golang.do(s, &c.want)
	err := c.lua.do(s, &c.got)
	c.seen.count(s, &c.want, before != c.golang.state || counted != c.golang.list.Counted())
	if s.verb == reserve && c.want.ok && s.n > 0 {
		c.bookings = append(c.bookings, step{verb: cancel, n: s.n, mark: c.golang.state})
	}
	if s.verb == take && c.want.ok && s.n > 0 {
		c.takes = append(c.takes, c.undoStep(s, before))
	}
	if err == nil && c.want.equals(&c.got) {
		return ""
	}
	return fmt.Sprintf("%s under %v from state %v:\n%v\n got in Lua %v (%v)\nwant as Go %v", c.algorithm.Name, c.limit, before, s, &c.got, err, &c.want)
}

// undoStep returns the step that undoes s, which has just been executed.
func (c *comparison) undoStep(s *step, was algo.State) step {
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

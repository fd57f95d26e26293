package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/headgate/headgate"
)

// slots are the units of the open holds of a key under the algorithm concurrency. Each
// hold takes its units until its deadline or until it ends.
type slots struct {
	limit int64
	holds []slotHold // in the order in which they were opened
}

type slotHold struct {
	id       string
	units    int64
	deadline int64
}

func (s *slots) clone() state { return &slots{limit: s.limit, holds: slices.Clone(s.holds)} }

func (s *slots) text() string { return fmt.Sprintf("%+v", s.holds) }

// carry keeps the holds under the new limit.
func (s *slots) carry(l headgate.Limit, _ int64) { s.limit = l.Rate }

// advance removes the holds that have expired at t.
func (s *slots) advance(t int64) {
	s.holds = slices.DeleteFunc(s.holds, func(h slotHold) bool { return h.deadline <= t })
}

func (s *slots) taken() (units int64) {
	for _, h := range s.holds {
		units += h.units
	}
	return units
}

func (s *slots) capacity() int64 { return s.limit }

func (s *slots) admits(_, n int64) bool { return s.taken()+n <= s.limit }

// spend takes n units for a hold whose id and deadline are set by opened.
func (s *slots) spend(_, n int64) {
	s.holds = append(s.holds, slotHold{units: n, deadline: math.MaxInt64})
}

func (s *slots) opened(id string, deadline int64) {
	last := &s.holds[len(s.holds)-1]
	last.id, last.deadline = id, deadline
}

func (s *slots) extend(id string, deadline int64) {
	for i := range s.holds {
		if s.holds[i].id == id {
			s.holds[i].deadline = deadline
		}
	}
}

func (s *slots) release(id string) {
	s.holds = slices.DeleteFunc(s.holds, func(h slotHold) bool { return h.id == id })
}

// refund does nothing: only the end of a hold releases its units.
func (s *slots) refund(int64, int64) {}

func (s *slots) remaining(int64) int64 { return max(0, s.limit-s.taken()) }

// admittedAt looks at every deadline: after one of them, enough holds have expired.
func (s *slots) admittedAt(_, n int64) int64 {
	first := int64(math.MaxInt64)
	for _, h := range s.holds {
		later := s.clone().(*slots)
		if later.advance(h.deadline); later.admits(h.deadline, n) {
			first = min(first, h.deadline)
		}
	}
	return first
}

func (s *slots) unusedAt(t int64) int64 {
	for _, h := range s.holds {
		t = max(t, h.deadline)
	}
	return t
}

func (s *slots) delay(int64) int64 { return 0 }

package demo

import (
	"testing"
	"time"
)

// A frame can be made while algorithms decide. The outcomes that it lacks are in a later
// frame, although there is no new request.
func TestRowsWithLaterOutcomes(t *testing.T) {
	t.Parallel()
	s := &session{stage: &stage{}}
	s.journal.tallies = [][]tally{make([]tally, 2)}
	c, now := &camera{s: s}, time.Unix(1e9, 0)
	seq := s.journal.enter(1, 0, 0, 1, 2)
	s.journal.record(0, 1, 0, outcome{seq: seq, cost: 1})
	if rows := c.rows(now); len(rows) != 1 || rows[0].Answers[0] != nil || rows[0].Answers[1] == nil {
		t.Fatalf("the first frame: got %+v want one row with the second answer", rows)
	}
	s.journal.record(0, 0, 0, outcome{seq: seq, cost: 1})
	now = now.Add(rowInterval)
	if rows := c.rows(now); len(rows) != 1 || rows[0].Answers[0] == nil {
		t.Errorf("the next frame: got %+v want both answers", rows)
	}
	if rows := c.rows(now.Add(rowInterval)); rows != nil {
		t.Errorf("without a change: got %+v want no rows", rows)
	}
}

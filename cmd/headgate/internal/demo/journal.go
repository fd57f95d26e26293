package demo

import (
	"time"

	"github.com/headgate/headgate"
)

// Bounds on stored results. Older results were sent to the page, which stores what it
// shows.
const (
	maxRows     = 24                     // requests in the table
	maxMarks    = 200                    // marks of a gate between two frames
	markWidth   = 10 * time.Millisecond  // requests in this interval share a mark
	maxOuts     = 100                    // delayed requests of a gate between two frames
	rowInterval = 200 * time.Millisecond // between two updates of the table
)

// journal records decisions. It is guarded by the mutex of the session.
type journal struct {
	epoch   int       // incremented when the journal is cleared
	seq     int64     // requests in this epoch
	tallies [][]tally // by track and algorithm
	rows    [maxRows]row
}

// tally counts the decisions of one gate.
type tally struct {
	allowed, denied, undecided int64
	marks                      []mark
	outs                       []int64 // times in µs of the session at which delayed requests may proceed
	last                       outcome
	changed                    bool // since the last frame
}

// mark counts the decisions within markWidth: its beginning in µs of the session,
// allowed, denied, undecided.
type mark [4]int64

// outcome is one result.
type outcome struct {
	seq      int64 // 0 if there is none
	at       time.Time
	decision headgate.Decision
	err      error
}

// row is one request and the results of all algorithms.
type row struct {
	seq      int64
	t        int64 // µs of the session
	track    int
	cost     int64
	outcomes []outcome
}

func (j *journal) clear(st *stage) {
	j.epoch++
	j.seq = 0
	j.rows = [maxRows]row{}
	j.tallies = make([][]tally, len(st.tracks))
	for i, t := range st.tracks {
		j.tallies[i] = make([]tally, len(t.gates))
	}
}

// enter adds requests that are about to be decided and returns the number of the first
// one.
func (j *journal) enter(n, track int, t, cost int64, gates int) int64 {
	first := j.seq + 1
	j.seq += int64(n)
	for seq := max(first, j.seq-maxRows+1); seq <= j.seq; seq++ {
		j.rows[seq%maxRows] = row{seq, t, track, cost, make([]outcome, gates)}
	}
	return first
}

// record adds a result.
func (j *journal) record(track, gate int, t int64, o outcome) {
	c := &j.tallies[track][gate]
	c.last, c.changed = o, true
	m := c.mark(t)
	switch {
	case o.err != nil:
		c.undecided++
		m[3]++
	case o.decision.Allowed:
		c.allowed++
		m[1]++
		if o.decision.Delay > 0 && len(c.outs) < maxOuts {
			c.outs = append(c.outs, t+o.decision.Delay.Microseconds())
		}
	default:
		c.denied++
		m[2]++
	}
	if r := &j.rows[o.seq%maxRows]; r.seq == o.seq {
		r.outcomes[gate] = o
	}
}

// mark returns the mark for t: the last one if it covers t or there is no room.
func (c *tally) mark(t int64) *mark {
	begin := t - t%markWidth.Microseconds()
	n := len(c.marks)
	if n == 0 || c.marks[n-1][0] < begin && n < maxMarks {
		c.marks = append(c.marks, mark{begin})
		n++
	}
	return &c.marks[n-1]
}

// recent returns the requests in the table, newest first.
func (j *journal) recent() []row {
	var rows []row
	for seq := j.seq; seq > 0 && seq > j.seq-maxRows; seq-- {
		if r := j.rows[seq%maxRows]; r.seq == seq {
			rows = append(rows, r)
		}
	}
	return rows
}

package demo

import (
	"time"

	"github.com/headgate/headgate"
)

// Limits on the number of stored results. Older results were already sent to the page,
// which stores what it displays.
const (
	maxRows     = 24                     // maximum number of requests in the table
	maxMarks    = 200                    // maximum number of marks for a gate between two frames
	markWidth   = 10 * time.Millisecond  // time interval whose requests share a mark
	maxOuts     = 100                    // maximum number of delayed requests for a gate between two frames
	rowInterval = 200 * time.Millisecond // minimum time between two updates of the table
)

// journal records the decisions of a session. The session's mutex guards it.
type journal struct {
	epoch   int       // number of times that the journal was cleared
	seq     int64     // number of requests in this epoch
	tallies [][]tally // indexed by track and algorithm
	rows    [maxRows]row
}

// tally holds the counts and the new results of one gate.
type tally struct {
	allowed, denied, undecided int64
	marks                      []mark
	outs                       []int64 // times at which delayed requests can proceed, in µs since the session began
	last                       outcome
	changed                    bool // whether there is a result that was not sent in a frame
}

// mark counts the decisions in an interval of the length markWidth. Its elements are
// the start of the interval in µs since the session began, and the numbers of allowed,
// denied and undecided requests.
type mark [4]int64

// outcome is the result of one request with one algorithm.
type outcome struct {
	seq      int64 // number of the request; 0 if there is no outcome
	at       time.Time
	decision headgate.Decision
	err      error
}

// row is one request with the outcomes of all algorithms.
type row struct {
	seq      int64
	t        int64 // in µs since the session began
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

// enter adds n requests that are about to be decided. It returns the number of the
// first of them.
func (j *journal) enter(n, track int, t, cost int64, gates int) int64 {
	first := j.seq + 1
	j.seq += int64(n)
	for seq := max(first, j.seq-maxRows+1); seq <= j.seq; seq++ {
		j.rows[seq%maxRows] = row{seq, t, track, cost, make([]outcome, gates)}
	}
	return first
}

// record adds the outcome of a request with one gate. The parameter t is its time in µs
// since the session began.
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

// mark returns the mark for the time t. It adds a new mark, unless the last mark covers
// t or the maximum number of marks exists. In these cases it returns the last mark.
func (c *tally) mark(t int64) *mark {
	begin := t - t%markWidth.Microseconds()
	n := len(c.marks)
	if n == 0 || c.marks[n-1][0] < begin && n < maxMarks {
		c.marks = append(c.marks, mark{begin})
		n++
	}
	return &c.marks[n-1]
}

// recent returns the most recent requests, at most maxRows, newest first.
func (j *journal) recent() []row {
	var rows []row
	for seq := j.seq; seq > 0 && seq > j.seq-maxRows; seq-- {
		if r := j.rows[seq%maxRows]; r.seq == seq {
			rows = append(rows, r)
		}
	}
	return rows
}

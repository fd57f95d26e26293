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
	changes int64 // number of changes of rows in this epoch
}

// tally holds the counts and the new results of one gate.
type tally struct {
	allowed, denied, undecided int64
	marks                      []mark
	outs                       []int64 // times at which delayed requests can proceed, in µs since the session began
	last                       outcome
	changed                    bool // whether there is a result that was not sent in a frame
	peak                       peak
}

// mark counts the decisions in an interval of at most the length markWidth. Its elements
// are the time of the first decision in µs since the session began, the numbers of
// allowed, denied and undecided requests, and the lowest and the highest number of
// remaining units. The last two are -1 if they are unknown.
type mark [6]int64

// outcome is the result of one request with one algorithm.
type outcome struct {
	seq      int64     // number of the request; 0 if there is no outcome
	asked    time.Time // before the decision
	at       time.Time // after the decision
	cost     int64
	period   time.Duration
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
	j.seq, j.changes = 0, 0
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
	j.changes++
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
		c.proceeds(t, o)
		if o.decision.Delay > 0 && len(c.outs) < maxOuts {
			c.outs = append(c.outs, t+o.decision.Delay.Microseconds())
		}
	default:
		c.denied++
		m[2]++
	}
	if r := &j.rows[o.seq%maxRows]; r.seq == o.seq {
		r.outcomes[gate] = o
		j.changes++
	}
}

// level adds the remaining units after a decision to the newest mark.
func (c *tally) level(remaining int64) {
	m := &c.marks[len(c.marks)-1]
	if m[4] < 0 {
		m[4], m[5] = remaining, remaining
	}
	m[4], m[5] = min(m[4], remaining), max(m[5], remaining)
}

// proceeds adds an allowed request to the peak. The parameter t is the time after the
// decision in µs since the session began.
func (c *tally) proceeds(t int64, o outcome) {
	delay := o.decision.Delay.Microseconds()
	from := t - o.at.Sub(o.asked).Microseconds() - 1 // rounded down
	c.peak.add(o.period, from+delay, t+delay, o.cost)
}

// mark returns the mark for the time t. It adds a new mark, unless the last mark covers
// t or the maximum number of marks exists. In these cases it returns the last mark.
func (c *tally) mark(t int64) *mark {
	n := len(c.marks)
	if n == 0 || t-c.marks[n-1][0] >= markWidth.Microseconds() && n < maxMarks {
		c.marks = append(c.marks, mark{t, 0, 0, 0, -1, -1})
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

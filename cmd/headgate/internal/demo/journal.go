package demo

import (
	"time"

	"github.com/headgate/headgate"
)

// Bounds on what is kept of the past. What is older was sent to the page, which keeps what it shows.
const (
	keptRows  = 24                     // requests in the table
	keptMarks = 200                    // marks of a gate between two frames
	markWidth = 10 * time.Millisecond  // requests of so long share a mark
	keptOuts  = 100                    // held requests of a gate between two frames
	rowsPause = 200 * time.Millisecond // between two looks of the page at the table
)

// journal is what was decided. Its stage's mutex is the session's.
type journal struct {
	epoch   int       // counts how often it was cleared
	seq     int64     // requests since then
	tallies [][]tally // by track and algorithm
	rows    [keptRows]row
}

// tally is what one gate has decided.
type tally struct {
	allowed, denied, undecided int64
	marks                      []mark
	outs                       []int64 // µs of the session at which a held request goes out
	last                       outcome
	changed                    bool // since the last frame
}

// mark is what was decided in markWidth: its beginning, in µs of the session, and how many were allowed, denied, undecided.
type mark [4]int64

// outcome is one answer.
type outcome struct {
	seq      int64 // 0 if there was none
	at       time.Time
	decision headgate.Decision
	err      error
}

// row is one request and the answers of all algorithms.
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
	j.rows = [keptRows]row{}
	j.tallies = make([][]tally, len(st.tracks))
	for i, t := range st.tracks {
		j.tallies[i] = make([]tally, len(t.gates))
	}
}

// enter adds requests that are about to be decided and returns the number of the first.
func (j *journal) enter(n, track int, t, cost int64, gates int) int64 {
	first := j.seq + 1
	j.seq += int64(n)
	for seq := max(first, j.seq-keptRows+1); seq <= j.seq; seq++ {
		j.rows[seq%keptRows] = row{seq, t, track, cost, make([]outcome, gates)}
	}
	return first
}

// record adds an answer.
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
		if o.decision.Delay > 0 && len(c.outs) < keptOuts {
			c.outs = append(c.outs, t+o.decision.Delay.Microseconds())
		}
	default:
		c.denied++
		m[2]++
	}
	if r := &j.rows[o.seq%keptRows]; r.seq == o.seq {
		r.outcomes[gate] = o
	}
}

// mark is the one for t: the last if it is of the same time or there is no room.
func (c *tally) mark(t int64) *mark {
	begin := t - t%markWidth.Microseconds()
	n := len(c.marks)
	if n == 0 || c.marks[n-1][0] < begin && n < keptMarks {
		c.marks = append(c.marks, mark{begin})
		n++
	}
	return &c.marks[n-1]
}

// recent are the requests in the table, the newest first.
func (j *journal) recent() []row {
	var rows []row
	for seq := j.seq; seq > 0 && seq > j.seq-keptRows; seq-- {
		if r := j.rows[seq%keptRows]; r.seq == seq {
			rows = append(rows, r)
		}
	}
	return rows
}

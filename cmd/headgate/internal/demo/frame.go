package demo

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// frame holds the changes since the previous frame, and the current levels. Times are
// in whole µs since the session began; durations are in whole µs.
type frame struct {
	T int64 `json:"t"`
	// Number of the epoch; the page clears its counts when the epoch changes.
	Epoch  int          `json:"epoch"`
	Sent   int64        `json:"sent"`             // number of requests in this epoch
	Rate   int64        `json:"rate"`             // number of requests in the last second
	Edge   int64        `json:"edge,omitempty"`   // end of the current window
	Tracks []trackFrame `json:"tracks,omitempty"` // omitted while the layout changes
	Rows   []rowFrame   `json:"rows,omitempty"`   // newest first; omitted if unchanged
}

type trackFrame struct {
	Gates []gateFrame `json:"gates"`
}

type gateFrame struct {
	Allowed   int64   `json:"allowed"`
	Denied    int64   `json:"denied"`
	Undecided int64   `json:"undecided"`
	Most      int64   `json:"most"`            // most units that proceeded within any one period
	Levels    []level `json:"levels"`          // one level for each state
	Marks     []mark  `json:"marks,omitempty"` // marks since the last frame, in the format of mark
	Outs      []int64 `json:"outs,omitempty"`  // times at which delayed requests can proceed
	Last      *answer `json:"last,omitempty"`  // last decision; omitted if there is no new one
}

// level is what a request with the current cost would get, as reported by a peek.
type level struct {
	Remaining int64  `json:"remaining"`
	Limit     int64  `json:"limit"`
	Allowed   bool   `json:"allowed"`
	Never     bool   `json:"never,omitempty"`
	RetryUS   int64  `json:"retry_after_us"`
	ResetUS   int64  `json:"reset_after_us"`
	DelayUS   int64  `json:"delay_us"`
	Error     string `json:"error,omitempty"`
}

// answer is one decision, with the status line and header fields of an HTTP response.
type answer struct {
	Seq       int64    `json:"seq"`
	Allowed   bool     `json:"allowed"`
	Limit     int64    `json:"limit"`
	Remaining int64    `json:"remaining"`
	RetryUS   int64    `json:"retry_after_us"`
	ResetUS   int64    `json:"reset_after_us"`
	DelayUS   int64    `json:"delay_us"`
	Never     bool     `json:"never,omitempty"`
	Error     string   `json:"error,omitempty"`
	Fields    []string `json:"fields,omitempty"`
}

type rowFrame struct {
	Seq     int64     `json:"seq"`
	T       int64     `json:"t"`
	Track   string    `json:"track"`
	Cost    int64     `json:"cost"`
	Answers []*answer `json:"answers"` // by algorithm; nil for an algorithm that has not decided
}

// camera creates the frames of a session. Only the goroutine of the event stream uses
// it.
type camera struct {
	s      *session
	edge   time.Time // last known end of a window
	edgeOf *stage
	second time.Time // start of the current second
	before int64     // number of requests before the current second
	rate   int64
	rowsAt time.Time
	rowsTo int64 // number of changes of rows that are in the page's table
	epoch  int
}

// frame creates the current frame.
func (c *camera) frame(ctx context.Context) frame {
	st, epoch := c.s.currentWithEpoch()
	c.findEdge(ctx, st)
	peeked := time.Now()
	levels := st.levels(ctx)
	now := time.Now()
	f := frame{T: c.s.since()}
	if !c.edge.IsZero() {
		f.Edge = c.edge.Sub(c.s.opened).Microseconds()
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	j := &c.s.journal
	if j.epoch != c.epoch {
		c.epoch, c.rowsTo = j.epoch, 0
		c.second, c.before, c.rate = now, 0, 0
	}
	f.Epoch, f.Sent = j.epoch, j.seq
	f.Rate = c.measure(now, j.seq)
	if epoch == j.epoch { // otherwise the levels are those of the previous layout
		for i := range j.tallies {
			f.Tracks = append(f.Tracks, trackFrame{j.gates(i, levels[i], peeked, c.s.stage)})
		}
	}
	f.Rows = c.rows(now)
	return f
}

// findEdge determines the end of the current window, once for each window.
func (c *camera) findEdge(ctx context.Context, st *stage) {
	period := st.settings.PeriodMS
	if c.edgeOf != nil && c.edgeOf.settings.PeriodMS == period && time.Now().Before(c.edge) {
		return
	}
	edge, err := st.nextEdge(ctx)
	if err != nil {
		edge = time.Time{}
	}
	c.edge, c.edgeOf = edge, st
}

// measure returns the number of requests in the last complete second.
func (c *camera) measure(now time.Time, seq int64) int64 {
	if took := now.Sub(c.second); took >= time.Second {
		c.rate = (seq - c.before) * int64(time.Second) / int64(took)
		c.second, c.before = now, seq
	}
	return c.rate
}

// rows returns the newest requests for the page's table. It returns nil if there are no
// new requests and no new outcomes, or if rowInterval has not passed since the last
// update. The caller holds the session's mutex.
func (c *camera) rows(now time.Time) []rowFrame {
	j := &c.s.journal
	if j.changes == c.rowsTo || now.Sub(c.rowsAt) < rowInterval {
		return nil
	}
	c.rowsAt, c.rowsTo = now, j.changes
	return j.table(c.s.stage)
}

// table returns the newest requests as rows of the page's table.
func (j *journal) table(st *stage) []rowFrame {
	var rows []rowFrame
	for _, r := range j.recent() {
		f := rowFrame{Seq: r.seq, T: r.t, Cost: r.cost}
		if len(st.tracks) > 1 {
			f.Track = st.tracks[r.track].name
		}
		for i := range r.outcomes {
			f.Answers = append(f.Answers, r.outcomes[i].answer())
		}
		rows = append(rows, f)
	}
	return rows
}

// gates returns the frames for all algorithms of a track, and removes the returned
// marks and results from the journal, because they are sent only once. A decision after
// the time peeked is newer than the levels.
func (j *journal) gates(track int, levels [][]level, peeked time.Time, st *stage) []gateFrame {
	var frames []gateFrame
	for i := range j.tallies[track] {
		c := &j.tallies[track][i]
		f := gateFrame{
			Allowed: c.allowed, Denied: c.denied, Undecided: c.undecided, Most: c.peak.most,
			Levels: levels[i], Marks: c.marks, Outs: c.outs,
		}
		if c.changed {
			f.Last = c.last.answer()
			f.Last.Fields = st.settings.fields(algorithms()[i], c.last)
			if d := c.last.decision; c.last.err == nil && len(f.Levels) == 1 && c.last.at.After(peeked) {
				f.Levels[0].Remaining, f.Levels[0].Limit = d.Remaining, d.Limit
			}
		}
		c.marks, c.outs, c.changed = nil, nil, false
		frames = append(frames, f)
	}
	return frames
}

// levels peeks at every state. The result is indexed by track, algorithm and state.
func (st *stage) levels(ctx context.Context) [][][]level {
	all := make([][][]level, len(st.tracks))
	var asked sync.WaitGroup
	for i, t := range st.tracks {
		all[i] = make([][]level, len(t.gates))
		for k, g := range t.gates {
			if g.refused != "" {
				all[i][k] = []level{{Error: g.refused}}
				continue
			}
			all[i][k] = make([]level, len(g.states))
			for n, state := range g.states {
				asked.Go(func() { all[i][k][n] = peek(ctx, state, t.key, st.settings.Cost) })
			}
		}
	}
	asked.Wait()
	return all
}

func peek(ctx context.Context, limiter *headgate.Limiter, key string, cost int64) level {
	d, err := limiter.PeekN(ctx, key, cost)
	if err != nil {
		return level{Error: reason(err)}
	}
	return level{
		Remaining: d.Remaining, Limit: d.Limit, Allowed: d.Allowed, Never: d.Never,
		RetryUS: d.RetryAfter.Microseconds(), ResetUS: d.ResetAfter.Microseconds(), DelayUS: d.Delay.Microseconds(),
	}
}

// answer converts the outcome to the form that is sent to the page. It returns nil if
// there is no outcome.
func (o outcome) answer() *answer {
	switch d := o.decision; {
	case o.seq == 0:
		return nil
	case o.err != nil:
		return &answer{Seq: o.seq, Error: reason(o.err)}
	default:
		return &answer{
			Seq: o.seq, Allowed: d.Allowed, Limit: d.Limit, Remaining: d.Remaining, Never: d.Never,
			RetryUS: d.RetryAfter.Microseconds(), ResetUS: d.ResetAfter.Microseconds(), DelayUS: d.Delay.Microseconds(),
		}
	}
}

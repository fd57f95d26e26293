package demo

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// frame is what has happened since the frame before, and how full everything is now. All times are whole µs of the session, all
// waits whole µs.
type frame struct {
	T      int64        `json:"t"`
	Epoch  int          `json:"epoch"`            // when it changes, the past is gone
	Sent   int64        `json:"sent"`             // requests in this epoch
	Rate   int64        `json:"rate"`             // requests a second, over the last one
	Edge   int64        `json:"edge,omitempty"`   // when the window of this time ends
	Tracks []trackFrame `json:"tracks,omitempty"` // missing while what is compared changes
	Rows   []rowFrame   `json:"rows,omitempty"`   // the newest first; missing if nothing has changed
}

type trackFrame struct {
	Gates []gateFrame `json:"gates"`
}

type gateFrame struct {
	Allowed   int64   `json:"allowed"`
	Denied    int64   `json:"denied"`
	Undecided int64   `json:"undecided"`
	Levels    []level `json:"levels"`          // one for each state
	Marks     []mark  `json:"marks,omitempty"` // since the last frame: time, allowed, denied, undecided
	Outs      []int64 `json:"outs,omitempty"`  // when held requests go out
	Last      *answer `json:"last,omitempty"`  // if there is a new one
}

// level is what a request of this cost would be told now.
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

// answer is one decision, and what HTTP would say of it.
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
	Answers []*answer `json:"answers"` // by algorithm; nil if it was not asked
}

// camera makes a session's frames, one after another; its stream holds it alone.
type camera struct {
	s      *session
	edge   time.Time // of the window as it was when last asked
	edgeOf *stage
	second time.Time // when the last one began
	before int64     // requests until then
	rate   int64
	rowsAt time.Time
	rowsTo int64 // the newest request that the page has a row of
	epoch  int
}

// shoot takes the frame of now.
func (c *camera) shoot(ctx context.Context) frame {
	st, epoch := c.s.showing()
	c.findEdge(ctx, st)
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
	if epoch == j.epoch { // otherwise the levels are of what was shown before
		for i := range j.tallies {
			f.Tracks = append(f.Tracks, trackFrame{j.gates(i, levels[i], c.s.stage)})
		}
	}
	f.Rows = c.rows(now)
	return f
}

// findEdge asks for the next edge of a window, once in a window.
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

// measure is the requests a second, over the last one.
func (c *camera) measure(now time.Time, seq int64) int64 {
	if took := now.Sub(c.second); took >= time.Second {
		c.rate = (seq - c.before) * int64(time.Second) / int64(took)
		c.second, c.before = now, seq
	}
	return c.rate
}

// rows are the newest requests, if there are new ones and the page has had time to read; the caller holds the session's mutex.
func (c *camera) rows(now time.Time) []rowFrame {
	j := &c.s.journal
	if j.seq == c.rowsTo || now.Sub(c.rowsAt) < rowsPause {
		return nil
	}
	c.rowsAt, c.rowsTo = now, j.seq
	return j.table(c.s.stage)
}

// table is the newest requests as the page shows them.
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

// gates are the frames of a track's gates; what is new is handed over.
func (j *journal) gates(track int, levels [][]level, st *stage) []gateFrame {
	var frames []gateFrame
	for i := range j.tallies[track] {
		c := &j.tallies[track][i]
		f := gateFrame{
			Allowed: c.allowed, Denied: c.denied, Undecided: c.undecided,
			Levels: levels[i], Marks: c.marks, Outs: c.outs,
		}
		if c.changed {
			f.Last = c.last.answer()
			f.Last.Fields = st.settings.fields(algorithms()[i], c.last)
		}
		c.marks, c.outs, c.changed = nil, nil, false
		frames = append(frames, f)
	}
	return frames
}

// levels peeks at every state: by track, algorithm and state.
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

// answer is the outcome as the page shows it; nil if there is none.
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

package replay

import (
	"context"
	"fmt"
	"sync"

	"github.com/headgate/headgate"
)

// batchSize is how many requests are decided before they are counted: those of a key wait for each other, so with many under way
// a batch must be long enough that few wait for the last key's.
const batchSize, batchSizeInFlight = 1 << 10, 1 << 14

// deciding is the second half of a replay: it walks the requests in time order and has every lane decide each.
type deciding struct {
	lanes    []*lane
	batch    int   // how many requests are decided before they are counted
	exact    *lane // the lane that the others are held against: the sliding log, if there are several; or nil
	from     *merger
	tally    *tally
	series   *series
	writer   *decisionWriter // nil if nobody wants the decisions
	requests int64           // how many there are
	progress func(decided int64)
}

func newDeciding(g *gathering, lanes []*lane) (*deciding, error) {
	from, err := g.merger()
	if err != nil {
		return nil, err
	}
	d := &deciding{
		lanes: lanes, batch: g.opts.batch(), exact: exactLane(lanes), from: from, requests: g.requests,
		tally: newTally(len(lanes), g.free()), series: newSeries(g.first, g.last, len(lanes)),
		progress: func(decided int64) { g.opts.Progress(Progress{Bytes: g.bytes, Requests: g.requests, Decided: decided}) },
	}
	if g.opts.Decisions != nil {
		d.writer = newDecisionWriter(g.opts.Decisions, lanes)
	}
	return d, nil
}

// exactLane is the sliding log among several lanes.
func exactLane(lanes []*lane) *lane {
	for _, l := range lanes {
		if len(lanes) > 1 && l.policy.Algorithm == headgate.SlidingLog {
			return l
		}
	}
	return nil
}

// decideAll decides every request.
func (d *deciding) decideAll(ctx context.Context) error {
	batch, decided := make([]request, 0, d.batch), int64(0)
	for {
		var err error
		if batch, err = d.from.next(batch[:0]); err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		if err := d.decide(ctx, batch); err != nil {
			return err
		}
		decided += int64(len(batch))
		d.progress(decided)
	}
	if decided != d.requests {
		return fmt.Errorf("replay: the temporary file was changed: %d of %d requests came back", decided, d.requests)
	}
	if d.writer != nil {
		return d.writer.flush()
	}
	return nil
}

// decide has every lane decide the batch, and counts.
func (d *deciding) decide(ctx context.Context, batch []request) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	d.decideLanes(ctx, batch)
	for _, l := range d.lanes {
		if l.err != nil {
			return l.err
		}
	}
	for i := range batch {
		d.count(&batch[i], i)
		if d.writer == nil {
			continue
		}
		if err := d.writer.write(&batch[i], d.lanes, i); err != nil {
			return err
		}
	}
	return nil
}

// decideLanes lets lanes decide at the same time; the stores know nothing of each other.
func (d *deciding) decideLanes(ctx context.Context, batch []request) {
	if len(d.lanes) == 1 {
		d.lanes[0].decide(ctx, batch)
		return
	}
	var all sync.WaitGroup
	for _, l := range d.lanes {
		all.Go(func() { l.decide(ctx, batch) })
	}
	all.Wait()
}

// count adds up the decisions on q, which is request i of the batch.
func (d *deciding) count(q *request, i int) {
	d.series.request(q.at)
	n := d.tally.number(q.hash, q.key)
	d.tally.requests[n]++
	for lane, l := range d.lanes {
		if l.count(i) {
			d.series.deny(lane)
			d.tally.deny(n, lane)
		}
		if d.exact != nil && l.decisions[i].Allowed != d.exact.decisions[i].Allowed {
			l.differs++
		}
	}
}

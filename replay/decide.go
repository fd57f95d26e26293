package replay

import (
	"context"
	"fmt"
	"sync"

	"github.com/headgate/headgate"
)

// batchSize is the number of requests that are decided before they are counted.
// batchSizeInFlight is that number if several requests are in flight at a time.
// Requests of one key are decided one after another. A longer batch therefore spends a
// smaller part of its time with only its most frequent key left.
const batchSize, batchSizeInFlight = 1 << 10, 1 << 14

// decider is the second phase of a replay: it reads the requests in time order and
// decides each of them under every policy.
type decider struct {
	replays  []*policyReplay
	batch    int           // the number of requests in a batch, which is decided before it is counted
	exact    *policyReplay // the replay under the sliding log, if it is one of several policies; else nil
	from     *merger
	tally    *tally
	series   *series
	writer   *decisionWriter // nil if no decisions are written
	requests int64           // the number of requests that the first phase found
	before   int64           // the number of requests that an earlier decider decided
	progress func(decided int64)
	watched  watched
}

// watched are keys whose denials by one policy are counted over time. The zero value
// has no keys.
type watched struct {
	policy int
	series map[string][]int64 // by key, the number of denials in each interval
}

// watch counts the denials of keys by a policy over time, in their field Series.
func (d *decider) watch(policy int, keys []WorstKey) {
	d.watched = watched{policy, make(map[string][]int64, len(keys))}
	for i := range keys {
		keys[i].Series = make([]int64, len(d.series.requests))
		d.watched.series[keys[i].Key] = keys[i].Series
	}
}

// deny counts a denial of a key by a policy in an interval.
func (w *watched) deny(policy int, key string, interval int64) {
	if w.series == nil || policy != w.policy {
		return
	}
	if series := w.series[key]; series != nil {
		series[interval]++
	}
}

func newDecider(g *gatherer, replays []*policyReplay, o *Options) (*decider, error) {
	from, err := g.merger()
	if err != nil {
		return nil, err
	}
	d := &decider{
		replays: replays, batch: o.batch(), exact: exactReplay(replays), from: from, requests: g.requests,
		tally: newTally(len(replays), g.free()), series: newSeries(g.first, g.last, len(replays)),
		progress: func(decided int64) { o.Progress(Progress{Bytes: g.bytes, Requests: g.requests, Decided: decided}) },
	}
	if o.Decisions != nil {
		d.writer = newDecisionWriter(o.Decisions, replays)
	}
	return d, nil
}

// exactReplay returns the replay under the sliding log if it is one of several
// policies, else nil.
func exactReplay(replays []*policyReplay) *policyReplay {
	for _, l := range replays {
		if len(replays) > 1 && l.policy.Algorithm == headgate.SlidingLog {
			return l
		}
	}
	return nil
}

// decideAll decides every request and flushes the written decisions.
func (d *decider) decideAll(ctx context.Context) error {
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
		d.progress(d.before + decided)
	}
	if decided != d.requests {
		return fmt.Errorf("replay: the temporary file was changed: only %d of %d requests could be read back", decided, d.requests)
	}
	if d.writer != nil {
		return d.writer.flush()
	}
	return nil
}

// decide decides the batch under every policy, counts the decisions and writes them.
func (d *decider) decide(ctx context.Context, batch []request) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	d.decideEach(ctx, batch)
	for _, l := range d.replays {
		if l.err != nil {
			return l.err
		}
	}
	for i := range batch {
		d.count(&batch[i], i)
		if d.writer == nil {
			continue
		}
		if err := d.writer.write(&batch[i], d.replays, i); err != nil {
			return err
		}
	}
	return nil
}

// decideEach decides the batch under all policies concurrently; their stores are
// independent. It sets the field err of a policy whose store fails.
func (d *decider) decideEach(ctx context.Context, batch []request) {
	if len(d.replays) == 1 {
		d.replays[0].decide(ctx, batch)
		return
	}
	var all sync.WaitGroup
	for _, l := range d.replays {
		all.Go(func() {
			l.decide(ctx, batch)
			l.measure(ctx, batch)
		})
	}
	all.Wait()
}

// count counts the decisions about q, which is request i of the batch.
func (d *decider) count(q *request, i int) {
	d.series.request(q.at)
	n := d.tally.number(q.hash, q.key)
	d.tally.requests[n]++
	for index, l := range d.replays {
		if l.count(i) {
			d.series.deny(index)
			d.tally.deny(n, index)
			d.watched.deny(index, q.key, d.series.at)
		}
		if d.exact != nil && l.decisions[i].Allowed != d.exact.decisions[i].Allowed {
			l.differs++
		}
	}
}

package replay

import (
	"context"
	"fmt"
	"sync"

	"github.com/headgate/headgate"
)

// decide decides a batch under the policy, each request at the time in its log line,
// and sets l.err on an error. Requests of one key are decided in order. If
// [Options].InFlight is above 1, requests of different keys are decided concurrently.
func (l *policyReplay) decide(ctx context.Context, batch []request) {
	defer func() { l.holds.sweep(headgate.Instant(batch[len(batch)-1].at).Time()) }()
	if l.turns == nil {
		for i := range batch {
			if l.err = l.decideOne(ctx, batch, i); l.err != nil {
				return
			}
		}
		return
	}
	l.share(batch)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first sync.Once
	var all sync.WaitGroup
	for _, turn := range l.turns {
		all.Go(func() {
			if err := l.decideTurn(ctx, batch, turn); err != nil {
				first.Do(func() { l.err = err })
				cancel()
			}
		})
	}
	all.Wait()
}

// share distributes the requests of a batch over the lists in l.turns, by the hash of
// the key: all requests of one key are in one list, in order.
func (l *policyReplay) share(batch []request) {
	for i := range l.turns {
		l.turns[i] = l.turns[i][:0]
	}
	for i := range batch {
		turn := &l.turns[batch[i].hash%uint64(len(l.turns))]
		*turn = append(*turn, int32(i))
	}
}

func (l *policyReplay) decideTurn(ctx context.Context, batch []request, turn []int32) error {
	for _, i := range turn {
		if err := l.decideOne(ctx, batch, int(i)); err != nil {
			return err
		}
	}
	return nil
}

// decideOne decides request i of the batch, at the time of the request.
func (l *policyReplay) decideOne(ctx context.Context, batch []request, i int) (err error) {
	q := &batch[i]
	if q.op != nil {
		return l.decideOperation(ctx, q, i)
	}
	if l.decisions[i], err = l.limiter.AllowAt(ctx, headgate.Instant(q.at).Time(), q.key, q.cost); err != nil {
		return fmt.Errorf("replay: %s at %d µs: %w", l.algorithm, q.at, err)
	}
	return nil
}

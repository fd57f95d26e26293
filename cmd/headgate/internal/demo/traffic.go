package demo

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"
)

// send lets all algorithms of a track decide n requests, and returns when all are
// decided. Each algorithm decides the requests in order. The algorithms decide
// concurrently, because a store on a network is slow. Requests that are not decided
// when ctx ends are recorded as undecided. send stops early only if the page is closed,
// so that all algorithms decide the same requests.
func (s *session) send(ctx context.Context, track, n int) {
	st := s.current()
	if track >= len(st.tracks) {
		return
	}
	gates := len(st.tracks[track].gates)
	s.mu.Lock()
	first := s.journal.enter(n, track, s.since(), st.settings.Cost, gates)
	s.mu.Unlock()
	var all sync.WaitGroup
	for i := range gates {
		all.Go(func() {
			for seq := first; seq < first+int64(n) && s.ctx.Err() == nil; seq++ {
				s.ask(ctx, st, track, i, seq)
			}
		})
	}
	all.Wait()
}

// ask decides one request with one algorithm and records the outcome.
func (s *session) ask(ctx context.Context, st *stage, track, gate int, seq int64) outcome {
	t := &st.tracks[track]
	g := t.gates[gate]
	o := outcome{seq: seq, asked: time.Now(), cost: st.settings.Cost, period: st.settings.period()}
	if g.refused != "" {
		return o
	}
	o.decision, o.err = g.next().AllowN(ctx, t.key, st.settings.Cost)
	if s.ctx.Err() != nil && o.err != nil {
		return o // not recorded, because the page is closed
	}
	o.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.record(track, gate, o.at.Sub(s.opened).Microseconds(), o)
	if len(g.states) == 1 && o.err == nil {
		s.journal.tallies[track][gate].level(o.decision.Remaining)
	}
	return o
}

// Limits on steady traffic. It wakes up at most once in streamPause, and then sends all
// requests that are due simultaneously.
const (
	streamPause = 2 * time.Millisecond
	maxBatch    = 100 // maximum number of requests sent at a time
	// Delay above which due requests are skipped, because the store is too slow for the
	// rate.
	maxLag = 250 * time.Millisecond
)

// steady sends requests at a constant rate, in requests per second, until ctx ends.
func (s *session) steady(ctx context.Context, track int, rate float64) {
	pace := pace{begin: time.Now(), rate: rate}
	for sleepUntil(ctx, pace.next()) {
		if n := pace.due(time.Now()); n > 0 {
			s.send(s.ctx, track, n)
		}
	}
}

// pace is the schedule of requests at a constant rate.
type pace struct {
	begin time.Time
	rate  float64 // requests per second
	sent  int64   // number of requests since begin
	woken time.Time
}

func (p *pace) at(n int64) time.Time {
	return p.begin.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
}

// next returns the time at which to wake up next.
func (p *pace) next() time.Time {
	if soon := p.woken.Add(streamPause); p.at(p.sent).Before(soon) {
		return soon
	}
	return p.at(p.sent)
}

// due returns how many requests are due at the time now. If they are
// more than maxLag late, it skips them and restarts the schedule.
func (p *pace) due(now time.Time) int {
	p.woken = now
	if now.Sub(p.at(p.sent)) > maxLag {
		p.begin, p.sent = now, 0
	}
	n := int64(now.Sub(p.begin).Seconds()*p.rate) + 1 - p.sent
	n = min(max(n, 0), maxBatch)
	p.sent += n
	return int(n)
}

// sleepUntil waits until the time t. It returns false if ctx has ended.
func sleepUntil(ctx context.Context, t time.Time) bool {
	wait := time.Until(t)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// stream starts steady traffic as background traffic. It returns an error if the rate
// is invalid, or if all pages together would exceed maxTotalRate. The caller holds
// s.acting.
func (h *Handler) stream(s *session, rate float64) error {
	if !(rate >= minStreamRate && rate <= maxStreamRate) {
		return refuse("stream", "the rate of the stream is %g; must be %g to %d per second", rate, minStreamRate, maxStreamRate)
	}
	s.stopBackground()
	share := int64(math.Ceil(rate))
	if h.rates.Add(share) > maxTotalRate {
		h.rates.Add(-share)
		return &refusal{
			Field: "stream", Detail: "the streams of all pages together exceed the maximum rate; choose a lower rate", status: http.StatusServiceUnavailable,
		}
	}
	s.restoreLayout()
	s.startBackground("stream", func(ctx context.Context) {
		defer h.rates.Add(-share)
		s.steady(ctx, 0, rate)
	})
	return nil
}

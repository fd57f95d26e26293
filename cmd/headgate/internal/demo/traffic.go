package demo

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"
)

// send decides n requests of a track in order. The algorithms decide concurrently,
// because a store on a network is slow. It returns when all requests are decided. It
// completes requests that have begun, unless the page is closed, so that all algorithms
// decided the same requests. Requests that ctx cancels are undecided.
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

// ask decides one request with one algorithm and records the result.
func (s *session) ask(ctx context.Context, st *stage, track, gate int, seq int64) outcome {
	t := &st.tracks[track]
	g := t.gates[gate]
	o := outcome{seq: seq}
	if g.refused != "" {
		return o
	}
	o.decision, o.err = g.next().AllowN(ctx, t.key, st.settings.Cost)
	if s.ctx.Err() != nil && o.err != nil {
		return o // the page is closed
	}
	o.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.record(track, gate, o.at.Sub(s.opened).Microseconds(), o)
	return o
}

// Bounds on steady traffic: it wakes up at most this often, and sends all due requests
// simultaneously.
const (
	streamPause = 2 * time.Millisecond
	maxBatch    = 100                    // requests
	maxLag      = 250 * time.Millisecond // later requests are skipped, because the store is too slow for the rate
)

// steady sends rate requests per second until ctx ends.
func (s *session) steady(ctx context.Context, track int, rate float64) {
	pace := pace{begin: time.Now(), rate: rate}
	for sleepUntil(ctx, pace.next()) {
		if n := pace.due(time.Now()); n > 0 {
			s.send(s.ctx, track, n)
		}
	}
}

// pace schedules the requests of a steady stream.
type pace struct {
	begin time.Time
	rate  float64 // requests per second
	sent  int64   // since begin
	woken time.Time
}

func (p *pace) at(n int64) time.Time {
	return p.begin.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
}

// next returns when to wake up.
func (p *pace) next() time.Time {
	if soon := p.woken.Add(streamPause); p.at(p.sent).Before(soon) {
		return soon
	}
	return p.at(p.sent)
}

// due returns how many requests to send at now. It skips requests that are too late.
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

// sleepUntil waits for t and reports whether ctx is still active.
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

// stream starts steady traffic, unless all pages together exceed maxTotalRate. The
// caller holds acting.
func (h *Handler) stream(s *session, rate float64) error {
	if !(rate >= minStreamRate && rate <= maxStreamRate) {
		return refuse("stream", "the rate of the stream is %g; must be %g to %d per second", rate, minStreamRate, maxStreamRate)
	}
	s.stopBackground()
	share := int64(math.Ceil(rate))
	if h.rates.Add(share) > maxTotalRate {
		h.rates.Add(-share)
		return &refusal{
			Field: "stream", Detail: "all pages together ask for too much; take a lower rate", status: http.StatusServiceUnavailable,
		}
	}
	s.restoreLayout()
	s.startBackground("stream", func(ctx context.Context) {
		defer h.rates.Add(-share)
		s.steady(ctx, 0, rate)
	})
	return nil
}

package demo

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"
)

// send has every algorithm decide n requests of a track, one after another; the algorithms are asked at the same time, as a
// store behind a network takes its time. It returns when all are decided: what was begun is finished, unless the page has gone,
// so that all algorithms have decided the same requests. What ctx cuts off is undecided.
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

// ask has one algorithm decide one request and keeps the answer.
func (s *session) ask(ctx context.Context, st *stage, track, gate int, seq int64) outcome {
	t := &st.tracks[track]
	g := t.gates[gate]
	o := outcome{seq: seq}
	if g.refused != "" {
		return o
	}
	o.decision, o.err = g.next().AllowN(ctx, t.key, st.settings.Cost)
	if s.ctx.Err() != nil && o.err != nil {
		return o // nobody is left to be told
	}
	o.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.record(track, gate, o.at.Sub(s.opened).Microseconds(), o)
	return o
}

// Steady traffic wakes up no more often than this, and what became due meanwhile is sent at once.
const (
	streamPause = 2 * time.Millisecond
	mostAtOnce  = 100                    // requests
	mostBehind  = 250 * time.Millisecond // later than this is left out: the store is too slow for the rate
)

// steady sends rate requests a second until ctx ends.
func (s *session) steady(ctx context.Context, track int, rate float64) {
	pace := pace{begin: time.Now(), rate: rate}
	for sleepUntil(ctx, pace.next()) {
		if n := pace.due(time.Now()); n > 0 {
			s.send(s.ctx, track, n)
		}
	}
}

// pace says when the requests of a steady stream are due.
type pace struct {
	begin time.Time
	rate  float64 // requests a second
	sent  int64   // since begin
	woken time.Time
}

func (p *pace) at(n int64) time.Time {
	return p.begin.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
}

// next is when to wake up.
func (p *pace) next() time.Time {
	if soon := p.woken.Add(streamPause); p.at(p.sent).Before(soon) {
		return soon
	}
	return p.at(p.sent)
}

// due is how many requests to send at now. It leaves out those that are too late.
func (p *pace) due(now time.Time) int {
	p.woken = now
	if now.Sub(p.at(p.sent)) > mostBehind {
		p.begin, p.sent = now, 0
	}
	n := int64(now.Sub(p.begin).Seconds()*p.rate) + 1 - p.sent
	n = min(max(n, 0), mostAtOnce)
	p.sent += n
	return int(n)
}

// sleepUntil waits for t and reports whether ctx is still there.
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

// stream starts steady traffic, if all pages together do not ask for too much; the caller holds acting.
func (h *Handler) stream(s *session, rate float64) error {
	if !(rate >= minStreamRate && rate <= maxStreamRate) {
		return refuse("stream", "the stream's rate is %g; accepted are %g to %d a second", rate, minStreamRate, maxStreamRate)
	}
	s.stopScript()
	share := int64(math.Ceil(rate))
	if h.rates.Add(share) > maxTotalRate {
		h.rates.Add(-share)
		return &refusal{
			Field: "stream", Detail: "all pages together ask for too much; take a lower rate", status: http.StatusServiceUnavailable,
		}
	}
	s.plain()
	s.startScript("stream", func(ctx context.Context) {
		defer h.rates.Add(-share)
		s.steady(ctx, 0, rate)
	})
	return nil
}

package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// scenario is a sequence of requests that demonstrates a property of the algorithms.
type scenario struct {
	Name  string
	Title string
	Watch string               // two sentences on what the user should observe
	Look  []headgate.Algorithm // algorithms whose panels demonstrate the property; nil means all
	set   func(*Settings)
	// Returns the layout and the stores created for it; nil means a layout with one
	// track.
	layout func(s *session) (layout, []headgate.Store)
	play   func(ctx context.Context, p *player)
}

// scenarios returns all scenarios in the order of the page.
func scenarios() []scenario {
	return []scenario{
		{
			Name: "edge", Title: "Burst at a window boundary", Look: []headgate.Algorithm{headgate.FixedWindow},
			Watch: "The limit is 10 in 4 s. Ten requests arrive just before a window ends and ten just after. The fixed window " +
				"starts again from zero and allows all of them.",
			set:  func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 10, 4000, 10, 9, 1 },
			play: playEdge,
		},
		{
			Name: "pause", Title: "Burst after a pause", Look: []headgate.Algorithm{headgate.TokenBucket, headgate.TokenBucketInterval},
			Watch: "A client pauses for eight seconds and then sends thirty requests simultaneously. Buckets have saved up a burst " +
				"of twenty. Windows allow ten. The leaky bucket queues ten and releases them one by one.",
			set:  func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 10, 4000, 20, 9, 1 },
			play: playPause,
		},
		{
			Name: "servers", Title: "Two servers",
			Watch: "Requests alternate between two servers. In the upper half of each chart they share one store; in the lower half " +
				"each has its own, so neither counts the requests of the other.",
			set:    func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 10, 5000, 10, 9, 1 },
			layout: layServers,
			play:   playServers,
		},
		{
			Name: "patience", Title: "Retry-After",
			Watch: "Two clients with the same limit. The patient client waits for Retry-After and is never denied; the hasty client " +
				"retries ten times a second. In most algorithms retrying early gains nothing.",
			set:    func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 5, 4000, 5, 4, 1 },
			layout: layClients("/patient", "patient", "/hasty", "hasty"),
			play:   playPatience,
		},
		{
			Name: "hot", Title: "A hot key",
			Watch: "One key gets two hundred requests a second, another key a few. The other key is never denied, because every " +
				"key has its own budget.",
			set:    func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 10, 4000, 10, 9, 1 },
			layout: layClients("/hot", "hot key", "/other", "other key"),
			play:   playHot,
		},
	}
}

// perform starts a scenario. The caller holds s.acting.
func (s *session) perform(name string) error {
	for _, c := range scenarios() {
		if c.Name != name {
			continue
		}
		s.stopBackground()
		settings := s.current().settings
		if s.saved == nil {
			s.saved = new(settings)
		}
		c.set(&settings)
		l, owned := plainLayout(s.store), []headgate.Store(nil)
		if c.layout != nil {
			l, owned = c.layout(s)
		}
		s.setLayout(l, settings, owned...)
		// The error is ignored, because the first decision shows that the store is
		// unavailable.
		_ = s.current().reset(s.ctx)
		s.startBackground(name, func(ctx context.Context) { c.play(ctx, &player{s, name}) })
		return nil
	}
	return refuse("scenario", "unknown scenario")
}

func layClients(suffix, name, otherSuffix, otherName string) func(*session) (layout, []headgate.Store) {
	return func(s *session) (layout, []headgate.Store) {
		stores := []headgate.Store{s.store}
		return layout{{name, suffix, stores}, {otherName, otherSuffix, stores}}, nil
	}
}

func layServers(s *session) (layout, []headgate.Store) {
	one, other := s.own(), s.own()
	return layout{
		{"one store", "", []headgate.Store{s.store, s.store}},
		{"two stores", "", []headgate.Store{one, other}},
	}, []headgate.Store{one, other}
}

// player creates the requests of a scenario.
type player struct {
	s    *session
	name string
}

// after waits for the duration d. It returns false if ctx has ended.
func (p *player) after(ctx context.Context, d time.Duration) bool {
	return sleepUntil(ctx, time.Now().Add(d))
}

func (p *player) note(text string) { p.s.setPlaying(p.name, text) }

// spread sends n requests one after another, each one pause after the previous one.
func (p *player) spread(ctx context.Context, track, n int, pause time.Duration) {
	begin := time.Now()
	for i := range n {
		if !sleepUntil(ctx, begin.Add(time.Duration(i)*pause)) {
			return
		}
		p.s.send(p.s.ctx, track, 1)
	}
}

// Timing of the requests around the end of a window: the time from the first request to
// the end of the window, and the time between two requests.
const (
	edgeLead  = 800 * time.Millisecond
	edgePause = 60 * time.Millisecond
)

// playEdge sends requests around the end of a real window.
func playEdge(ctx context.Context, p *player) {
	st := p.s.current()
	edge, err := st.nextEdge(ctx)
	if err != nil {
		p.note("the store does not respond")
		return
	}
	period := st.settings.period()
	if time.Until(edge) < edgeLead+100*time.Millisecond {
		edge = edge.Add(period)
	}
	p.note("waiting for the window boundary")
	if !sleepUntil(ctx, edge.Add(-edgeLead)) {
		return
	}
	p.note("10 before the boundary")
	p.spread(ctx, 0, 10, edgePause)
	p.note("10 after the boundary")
	if !sleepUntil(ctx, edge.Add(edgeLead/4)) {
		return
	}
	p.spread(ctx, 0, 10, edgePause)
	if ctx.Err() == nil {
		p.conclude(mostResult(st.settings))
	}
	p.note("waiting for every limiter to refill")
	sleepUntil(ctx, edge.Add(period+edgeLead/2))
}

// nextEdge returns the end of the current window, which depends on the store's clock,
// converted to this process's clock.
func (st *stage) nextEdge(ctx context.Context) (time.Time, error) {
	if st.edges == nil {
		return time.Time{}, headgate.ErrUnsupported
	}
	asked := time.Now()
	// Not the same for all periods, because an open window keeps its end when the
	// period changes.
	key := fmt.Sprint("edge/", st.settings.PeriodMS)
	d, err := st.edges.AllowN(ctx, key, 1)
	took := time.Since(asked)
	return asked.Add(took/2 + d.ResetAfter), err
}

func playPause(ctx context.Context, p *player) {
	p.note("5 requests/s")
	p.spread(ctx, 0, 10, 200*time.Millisecond)
	p.note("pause")
	if !p.after(ctx, 8*time.Second) {
		return
	}
	p.s.mu.Lock()
	before := p.s.journal.counts(0, func(c *tally) int64 { return c.allowed })
	p.s.mu.Unlock()
	const burst = 30
	p.note("30 requests simultaneously")
	p.s.send(p.s.ctx, 0, burst)
	p.conclude(burstResult(burst, before))
	p.after(ctx, 4*time.Second)
}

func playServers(ctx context.Context, p *player) {
	p.note("8 requests/s, alternating between two servers")
	defer p.conclude(serversResult)
	begin := time.Now()
	for i := range 120 {
		if !sleepUntil(ctx, begin.Add(time.Duration(i)*time.Second/8)) {
			return
		}
		p.s.send(p.s.ctx, 0, 1)
		p.s.send(p.s.ctx, 1, 1)
	}
}

func playHot(ctx context.Context, p *player) {
	p.note("200 requests/s on one key, 1.25/s on the other")
	defer p.conclude(clientsResult("Hot key", "Other key"))
	ctx, stop := context.WithTimeout(ctx, 15*time.Second)
	defer stop()
	other := inBackground(func() { p.spread(ctx, 1, 19, 800*time.Millisecond) })
	p.s.steady(ctx, 0, 200)
	<-other
}

// playPatience runs a separate patient client for each algorithm, because the time
// until a retry depends on the algorithm.
func playPatience(ctx context.Context, p *player) {
	p.note("the hasty client retries 10 times a second")
	defer p.conclude(clientsResult("Patient client", "Hasty client"))
	ctx, stop := context.WithTimeout(ctx, 15*time.Second)
	defer stop()
	var patient []<-chan struct{}
	for gate := range algorithms() {
		patient = append(patient, inBackground(func() { p.patient(ctx, gate) }))
	}
	p.s.steady(ctx, 1, 10)
	for _, done := range patient {
		<-done
	}
}

// minPatientPause is the minimum time between two requests of a patient client.
const minPatientPause = 200 * time.Millisecond

// patient runs a client that sends requests to one algorithm. After each request it
// waits for the request's delay, and then until the next request would be allowed.
func (p *player) patient(ctx context.Context, gate int) {
	for ctx.Err() == nil {
		o := p.s.sendTo(0, gate)
		if !p.after(ctx, max(minPatientPause, o.decision.Delay)) {
			return
		}
		wait, err := p.s.nextWait(ctx, 0, gate)
		if err != nil || !p.after(ctx, wait) {
			return
		}
	}
}

// sendTo sends a request to only one algorithm of a track.
func (s *session) sendTo(track, gate int) outcome {
	st := s.current()
	s.mu.Lock()
	seq := s.journal.enter(1, track, s.since(), st.settings.Cost, len(st.tracks[track].gates))
	s.mu.Unlock()
	return s.ask(s.ctx, st, track, gate, seq)
}

// nextWait returns the time after which one algorithm of a track would allow a request.
func (s *session) nextWait(ctx context.Context, track, gate int) (time.Duration, error) {
	st := s.current()
	g := st.tracks[track].gates[gate]
	if g.refused != "" {
		return 0, headgate.ErrUnsupported
	}
	d, err := g.states[0].PeekN(ctx, st.tracks[track].key, st.settings.Cost)
	return d.RetryAfter, err
}

func inBackground(work func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	return done
}

package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// scenario is traffic that teaches something. Its words are on the page.
type scenario struct {
	Name   string
	Title  string
	Watch  string               // two sentences of what to look at
	Look   []headgate.Algorithm // at which panels, if not at all
	set    func(*Settings)
	layout func(s *session) (layout, []headgate.Store) // nil means one track
	play   func(ctx context.Context, p *player)
}

// scenarios are in the page's order.
func scenarios() []scenario {
	return []scenario{
		{
			Name: "edge", Title: "The window’s edge", Look: []headgate.Algorithm{headgate.FixedWindow},
			Watch: "Ten requests arrive just before a window ends and ten just after: the fixed window admits all twenty, twice its " +
				"rate in a second and a half. The sliding log stays at ten in any four seconds, and the sliding window lets in " +
				"what has faded.",
			set:  func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 10, 4000, 10, 9, 1 },
			play: playEdge,
		},
		{
			Name: "pause", Title: "After a pause", Look: []headgate.Algorithm{headgate.TokenBucket, headgate.TokenBucketInterval},
			Watch: "A busy client rests for eight seconds and comes back with thirty requests at once: the buckets have saved up a " +
				"burst of twenty. Windows save nothing beyond their ten, and the leaky bucket takes what fits into its queue and " +
				"holds it back.",
			set:  func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 10, 4000, 20, 9, 1 },
			play: playPause,
		},
		{
			Name: "servers", Title: "Two servers",
			Watch: "The same requests go in turn to two servers that share one store, above, and to two that each have their own, " +
				"below. Those on their own admit twice the limit, because neither knows what the other has spent.",
			set:    func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 10, 5000, 10, 9, 1 },
			layout: layServers,
			play:   playServers,
		},
		{
			Name: "patience", Title: "Patient and hasty",
			Watch: "Both clients have the same limit: the patient one waits as long as it is told to and is never denied, the hasty " +
				"one tries ten times a second. Haste gains nothing: count what each was allowed.",
			set:    func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 5, 4000, 5, 4, 1 },
			layout: layClients("/patient", "patient", "/hasty", "hasty"),
			play:   playPatience,
		},
		{
			Name: "hot", Title: "A hot key",
			Watch: "One key is hammered two hundred times a second, another asks now and then. The other one is never denied, " +
				"because each key has a budget of its own and the store is not busy.",
			set:    func(c *Settings) { c.Rate, c.PeriodMS, c.Burst, c.Queue, c.Cost = 10, 4000, 10, 9, 1 },
			layout: layClients("/hot", "hot key", "/other", "other key"),
			play:   playHot,
		},
	}
}

// perform starts a scenario from the beginning; the caller holds acting.
func (s *session) perform(name string) error {
	for _, c := range scenarios() {
		if c.Name != name {
			continue
		}
		s.stopScript()
		settings := s.current().settings
		c.set(&settings)
		l, owned := plainLayout(s.store), []headgate.Store(nil)
		if c.layout != nil {
			l, owned = c.layout(s)
		}
		s.lay(l, settings, owned...)
		_ = s.current().reset(s.ctx) // a store that is away shows in the first answer
		s.startScript(name, func(ctx context.Context) { c.play(ctx, &player{s, name}) })
		return nil
	}
	return refuse("scenario", "there is no such scenario")
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
		{"a store each", "", []headgate.Store{one, other}},
	}, []headgate.Store{one, other}
}

// player is what a scenario's traffic is made with.
type player struct {
	s    *session
	name string
}

// after waits, and reports whether to go on.
func (p *player) after(ctx context.Context, d time.Duration) bool {
	return sleepUntil(ctx, time.Now().Add(d))
}

func (p *player) note(text string) { p.s.play(p.name, text) }

// spread sends n requests with a pause between two.
func (p *player) spread(ctx context.Context, track, n int, pause time.Duration) {
	begin := time.Now()
	for i := range n {
		if !sleepUntil(ctx, begin.Add(time.Duration(i)*pause)) {
			return
		}
		p.s.send(p.s.ctx, track, 1)
	}
}

// Around an edge: how far from it the requests begin, and how far from each other they are.
const (
	edgeLead  = 800 * time.Millisecond
	edgePause = 60 * time.Millisecond
)

// playEdge attacks three edges of real windows, with a window of rest between two attacks.
func playEdge(ctx context.Context, p *player) {
	for range 3 {
		st := p.s.current()
		edge, err := st.nextEdge(ctx)
		if err != nil {
			p.note("the store does not answer")
			return
		}
		period := time.Duration(st.settings.PeriodMS) * time.Millisecond
		if time.Until(edge) < edgeLead+100*time.Millisecond {
			edge = edge.Add(period)
		}
		p.note("waiting for the window’s edge")
		if !sleepUntil(ctx, edge.Add(-edgeLead)) {
			return
		}
		p.note("ten before the edge, ten behind it")
		p.spread(ctx, 0, 10, edgePause)
		if !sleepUntil(ctx, edge.Add(edgeLead/4)) {
			return
		}
		p.spread(ctx, 0, 10, edgePause)
		p.note("at rest, until all have forgotten")
		if !sleepUntil(ctx, edge.Add(2*period)) {
			return
		}
	}
}

// nextEdge is when the window of this time ends, by the store's clock, as this process's time.
func (st *stage) nextEdge(ctx context.Context) (time.Time, error) {
	if st.edges == nil {
		return time.Time{}, headgate.ErrUnsupported
	}
	asked := time.Now()
	key := fmt.Sprint("edge/", st.settings.PeriodMS) // a window that is open keeps its end when the period changes
	d, err := st.edges.AllowN(ctx, key, 1)
	took := time.Since(asked)
	return asked.Add(took/2 + d.ResetAfter), err
}

func playPause(ctx context.Context, p *player) {
	for range 2 {
		p.note("busy: five a second")
		p.spread(ctx, 0, 20, 200*time.Millisecond)
		p.note("a pause")
		if !p.after(ctx, 8*time.Second) {
			return
		}
		p.note("back, with thirty at once")
		p.spread(ctx, 0, 30, 4*time.Millisecond)
		if !p.after(ctx, 3*time.Second) {
			return
		}
	}
}

func playServers(ctx context.Context, p *player) {
	p.note("eight a second, to either server in turn")
	begin := time.Now()
	for i := range 160 {
		if !sleepUntil(ctx, begin.Add(time.Duration(i)*time.Second/8)) {
			return
		}
		p.s.send(p.s.ctx, 0, 1)
		p.s.send(p.s.ctx, 1, 1)
	}
}

func playHot(ctx context.Context, p *player) {
	p.note("200/s on one key, 1.25/s on the other")
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	other := inBackground(func() { p.spread(ctx, 1, 25, 800*time.Millisecond) })
	p.s.steady(ctx, 0, 200)
	<-other
}

// playPatience has a patient client for each algorithm, as each tells it another wait.
func playPatience(ctx context.Context, p *player) {
	p.note("the hasty client tries ten times a second")
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
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

// patientPause is the least time between two requests of the patient client.
const patientPause = 200 * time.Millisecond

// patient asks one algorithm, and then waits: as long as the request was delayed, and until the next would be admitted.
func (p *player) patient(ctx context.Context, gate int) {
	for ctx.Err() == nil {
		o := p.s.sendTo(0, gate)
		if !p.after(ctx, max(patientPause, o.decision.Delay)) {
			return
		}
		wait, err := p.s.nextWait(ctx, 0, gate)
		if err != nil || !p.after(ctx, wait) {
			return
		}
	}
}

// sendTo has one algorithm alone decide a request.
func (s *session) sendTo(track, gate int) outcome {
	st := s.current()
	s.mu.Lock()
	seq := s.journal.enter(1, track, s.since(), st.settings.Cost, len(st.tracks[track].gates))
	s.mu.Unlock()
	return s.ask(s.ctx, st, track, gate, seq)
}

// nextWait is the wait after which a request would be admitted, as the limiter says it.
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

package demo

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// session is the state of one open page: settings, limiters and results. It ends with
// its event stream.
type session struct {
	id     string
	store  headgate.Store
	own    func() headgate.Store
	opened time.Time
	ctx    context.Context // ends with the stream
	end    context.CancelFunc

	acting     sync.Mutex         // one action at a time; guards script and owned
	background *backgroundTraffic // background traffic; nil if there is none
	layout     layout
	owned      []headgate.Store // stores of the layout

	mu              sync.Mutex // guards the following fields
	stage           *stage
	cancelClickFunc func()    // cancels the last click
	lastAction      time.Time // time of the last action
	stateVersion    int       // version of the state for the page: settings, layout, background traffic
	playing         string    // name of a scenario, or “stream”
	note            string    // what a scenario currently does
	journal         journal
}

// openSession creates a session, unless there are too many.
func (h *Handler) openSession(ctx context.Context) (*session, error) {
	s := &session{id: rand.Text(), store: h.store, own: h.opts.OwnStore, opened: time.Now(), lastAction: time.Now()}
	s.ctx, s.end = context.WithCancel(ctx)
	settings := defaultSettings()
	settings.Key = "visitor-" + s.id[:5]
	s.layout = plainLayout(h.store)
	s.stage = s.layout.build(settings, h.store)
	s.journal.clear(s.stage)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.sessions) >= h.opts.MaxSessions {
		s.end()
		return nil, &refusal{Detail: "too many pages are open; close one", status: http.StatusServiceUnavailable}
	}
	h.sessions[s.id] = s
	h.open.Add(1)
	return s, nil
}

// closeSession ends everything that a session started and waits for it.
func (h *Handler) closeSession(s *session) {
	h.mu.Lock()
	delete(h.sessions, s.id)
	h.mu.Unlock()
	s.end()
	s.acting.Lock()
	defer s.acting.Unlock()
	s.stopBackground()
	s.disown()
	h.open.Done()
}

// session returns an open session by its ID.
func (h *Handler) session(id string) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.sessions[id]; ok {
		return s, nil
	}
	return nil, &refusal{Detail: "this page's session has ended; load it again", status: http.StatusNotFound}
}

// since returns the time since the session began, in µs.
func (s *session) since() int64 { return time.Since(s.opened).Microseconds() }

// current returns the current stage.
func (s *session) current() *stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stage
}

// showing returns the current stage and its epoch.
func (s *session) currentWithEpoch() (*stage, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stage, s.journal.epoch
}

// put replaces the stage. With afresh it also clears the counts and charts.
func (s *session) setStage(st *stage, afresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage = st
	s.stateVersion++
	if afresh {
		s.journal.clear(st)
	}
}

// lay changes the layout and closes the stores of the previous one. The caller holds
// acting, and no script runs.
func (s *session) setLayout(l layout, settings Settings, owned ...headgate.Store) {
	s.setStage(l.build(settings, s.store), true)
	s.disown()
	s.layout, s.owned = l, owned
}

func (s *session) disown() {
	for _, store := range s.owned {
		_ = store.Close() // a memory store cannot fail
	}
	s.owned = nil
}

// plain restores one track after a scenario with several.
func (s *session) restoreLayout() {
	if st := s.current(); len(st.tracks) > 1 {
		s.setLayout(plainLayout(s.store), st.settings)
	}
}

// play sets the name and note of the background traffic on the page.
func (s *session) setPlaying(name, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.playing != name || s.note != note {
		s.playing, s.note = name, note
		s.stateVersion++
	}
}

// onCut stores the function that cancels a click.
func (s *session) setCancel(cut func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelClickFunc = cut
}

// cutClick cancels the requests of the running click.
func (s *session) cancelClick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancelClickFunc != nil {
		s.cancelClickFunc()
	}
}

func (s *session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastAction = time.Now()
}

func (s *session) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.lastAction)
}

// script is background traffic that runs until it ends or is stopped.
type backgroundTraffic struct {
	stop context.CancelFunc
	done chan struct{}
}

// startScript replaces the running script by work on a new goroutine. The caller holds
// acting.
func (s *session) startBackground(name string, work func(context.Context)) {
	s.stopBackground()
	ctx, stop := context.WithCancel(s.ctx)
	s.background = &backgroundTraffic{stop, make(chan struct{})}
	s.setPlaying(name, "")
	go func(done chan struct{}) {
		defer close(done)
		defer s.setPlaying("", "")
		work(ctx)
	}(s.background.done)
}

// stopScript stops the running script and waits for it. The caller holds acting.
func (s *session) stopBackground() {
	if s.background == nil {
		return
	}
	s.background.stop()
	<-s.background.done
	s.background = nil
}

package demo

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// session is the state of one open page: settings, limiters and results. It ends when
// the page's event stream ends.
type session struct {
	id     string
	store  headgate.Store
	own    func() headgate.Store
	opened time.Time
	ctx    context.Context // ends with the event stream
	end    context.CancelFunc

	acting     sync.Mutex         // held by the action in progress; guards the following fields
	background *backgroundTraffic // nil if there is no background traffic
	layout     layout
	owned      []headgate.Store // stores that were created for the layout
	saved      *Settings        // the user's settings while those of a scenario apply; otherwise nil

	mu              sync.Mutex // guards the following fields
	stage           *stage
	cancelClickFunc func()    // cancels the requests of the last click
	lastAction      time.Time // time of the last user action
	stateVersion    int       // incremented when settings, layout or background traffic change
	playing         string    // name of a scenario, or “stream”; empty without background traffic
	note            string    // what the scenario is currently doing
	result          string    // what the last scenario showed; empty if there is none
	journal         journal
}

// openSession creates a session. It returns an error if the maximum number of pages is
// open or the handler is closed.
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

// closeSession ends a session and everything that it has started, and waits until all
// of it has ended.
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

// session returns the open session with the given ID, or an error if there is none.
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

// currentWithEpoch returns the current stage and the journal's epoch.
func (s *session) currentWithEpoch() (*stage, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stage, s.journal.epoch
}

// setStage replaces the stage. If the parameter afresh is true, it also clears the
// counts and charts.
func (s *session) setStage(st *stage, afresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage = st
	s.stateVersion++
	if afresh {
		s.result = ""
		s.journal.clear(st)
	}
}

// setLayout changes the layout and closes the stores of the previous layout. The caller
// holds s.acting, and no background traffic may be running.
func (s *session) setLayout(l layout, settings Settings, owned ...headgate.Store) {
	s.setStage(l.build(settings, s.store), true)
	s.disown()
	s.layout, s.owned = l, owned
}

func (s *session) disown() {
	for _, store := range s.owned {
		_ = store.Close() // closing a memory store cannot fail
	}
	s.owned = nil
}

// leavesScenario reports whether the page shows a scenario: its tracks or its settings.
// The caller holds s.acting.
func (s *session) leavesScenario() bool { return s.saved != nil || len(s.current().tracks) > 1 }

// restoreLayout changes the layout back to one track and the settings back to those of
// the user, if a scenario has changed them. The key is then unused again. The caller
// holds s.acting, and no background traffic may be running.
func (s *session) restoreLayout() {
	if !s.leavesScenario() {
		return
	}
	s.setLayout(plainLayout(s.store), s.userSettings())
	// The error is ignored, because the first decision shows that the store is
	// unavailable.
	_ = s.current().reset(s.ctx)
}

// userSettings returns the settings of the user and forgets those of a scenario.
func (s *session) userSettings() Settings {
	settings := s.current().settings
	if s.saved != nil {
		settings, s.saved = *s.saved, nil
	}
	return settings
}

// setPlaying sets the name and the note of the background traffic that the page
// displays.
func (s *session) setPlaying(name, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.playing != name || s.note != note {
		s.playing, s.note = name, note
		s.stateVersion++
	}
}

// setCancel stores the function that cancels the requests of the current click.
func (s *session) setCancel(cut func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelClickFunc = cut
}

// cancelClick cancels the requests of the current click.
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

// backgroundTraffic is traffic that continues until it ends or is stopped.
type backgroundTraffic struct {
	stop context.CancelFunc
	done chan struct{}
}

// startBackground stops the current background traffic, and runs the function work as
// the new background traffic in a new goroutine. The caller holds s.acting.
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

// stopBackground stops the background traffic, if there is any, and waits until it has
// ended. The caller holds s.acting.
func (s *session) stopBackground() {
	if s.background == nil {
		return
	}
	s.background.stop()
	<-s.background.done
	s.background = nil
}

package demo

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// session is one open page: its settings, what decides for it, and what was decided. It ends with its stream of events.
type session struct {
	id     string
	store  headgate.Store
	own    func() headgate.Store
	opened time.Time
	ctx    context.Context // ends with the stream
	end    context.CancelFunc

	acting sync.Mutex // one action at a time; what follows is its own
	script *script    // the traffic that goes on by itself; nil if there is none
	layout layout
	owned  []headgate.Store // of the layout

	mu      sync.Mutex // guards what follows
	stage   *stage
	cut     func()    // cuts the last click off
	touched time.Time // when something was pressed last
	told    int       // changes that the page must hear of as a whole: settings, layout, what plays
	playing string    // a scenario's name, or “stream”
	note    string    // what a scenario does just now
	journal journal
}

// openSession makes a session, if there is room for one more.
func (h *Handler) openSession(ctx context.Context) (*session, error) {
	s := &session{id: rand.Text(), store: h.store, own: h.opts.OwnStore, opened: time.Now(), touched: time.Now()}
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

// closeSession ends everything that a session has started and waits for it.
func (h *Handler) closeSession(s *session) {
	h.mu.Lock()
	delete(h.sessions, s.id)
	h.mu.Unlock()
	s.end()
	s.acting.Lock()
	defer s.acting.Unlock()
	s.stopScript()
	s.disown()
	h.open.Done()
}

// session finds an open one.
func (h *Handler) session(id string) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.sessions[id]; ok {
		return s, nil
	}
	return nil, &refusal{Detail: "this page's session has ended; load it again", status: http.StatusNotFound}
}

// since is the session's own time, in µs.
func (s *session) since() int64 { return time.Since(s.opened).Microseconds() }

// current is what decides now.
func (s *session) current() *stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stage
}

// showing is what decides now, and the epoch that it belongs to.
func (s *session) showing() (*stage, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stage, s.journal.epoch
}

// put makes st decide from now on. Afresh means that nothing of what was counted and drawn stays.
func (s *session) put(st *stage, afresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage = st
	s.told++
	if afresh {
		s.journal.clear(st)
	}
}

// lay changes what is compared. Stores of the layout before are closed; the caller holds acting, and no script runs.
func (s *session) lay(l layout, settings Settings, owned ...headgate.Store) {
	s.put(l.build(settings, s.store), true)
	s.disown()
	s.layout, s.owned = l, owned
}

func (s *session) disown() {
	for _, store := range s.owned {
		_ = store.Close() // in memory: there is nothing that could fail
	}
	s.owned = nil
}

// plain goes back to one track, if a scenario has left several.
func (s *session) plain() {
	if st := s.current(); len(st.tracks) > 1 {
		s.lay(plainLayout(s.store), st.settings)
	}
}

// play tells the page what goes on by itself, and what it does just now.
func (s *session) play(name, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.playing != name || s.note != note {
		s.playing, s.note = name, note
		s.told++
	}
}

// onCut keeps what cuts a click off.
func (s *session) onCut(cut func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
}

// cutClick ends the click that runs, if one does, by cutting its requests off.
func (s *session) cutClick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil {
		s.cut()
	}
}

func (s *session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched = time.Now()
}

func (s *session) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.touched)
}

// script is traffic that goes on by itself until it has ended or is stopped.
type script struct {
	stop context.CancelFunc
	done chan struct{}
}

// startScript runs work on a goroutine of its own in place of what runs; the caller holds acting.
func (s *session) startScript(name string, work func(context.Context)) {
	s.stopScript()
	ctx, stop := context.WithCancel(s.ctx)
	s.script = &script{stop, make(chan struct{})}
	s.play(name, "")
	go func(done chan struct{}) {
		defer close(done)
		defer s.play("", "")
		work(ctx)
	}(s.script.done)
}

// stopScript ends what runs, and waits for that; the caller holds acting.
func (s *session) stopScript() {
	if s.script == nil {
		return
	}
	s.script.stop()
	<-s.script.done
	s.script = nil
}

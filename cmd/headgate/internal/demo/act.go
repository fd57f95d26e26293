package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// action is a command that a user gives on a page.
type action struct {
	Session  string    `json:"session"`
	Do       string    `json:"do"`       // send, stream, stop, reset, set or scenario
	N        int       `json:"n"`        // number of requests, for send
	Rate     float64   `json:"rate"`     // requests per second, for stream
	Settings *Settings `json:"settings"` // new settings, for set
	Scenario string    `json:"scenario"` // name of the scenario, for scenario
}

const maxActionBytes = 4 << 10

// act serves a request for an action: it runs the action and then responds. The
// response is 204, or a problem that names the invalid control.
func (h *Handler) act(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	a, err := readAction(r)
	if err == nil {
		err = h.do(a)
	}
	// With a slow store, the action may have taken longer than the server's write
	// timeout. The error is ignored, because not every server supports deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if err != nil {
		writeRefusal(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func readAction(r *http.Request) (a action, err error) {
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxActionBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		return a, refuse("", "invalid action: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return a, refuse("", "unexpected data after the action")
	}
	return a, nil
}

func (h *Handler) do(a action) error {
	s, err := h.session(a.Session)
	if err != nil {
		return err
	}
	if a.Do != "send" && a.Do != "set" {
		s.cancelClick() // does not wait for decisions of a slow store
	}
	s.acting.Lock()
	defer s.acting.Unlock()
	s.touch()
	switch a.Do {
	case "send":
		return s.click(a.N)
	case "stream":
		return h.stream(s, a.Rate)
	case "stop":
		s.stopBackground()
		return nil
	case "reset":
		return s.reset()
	case "set":
		return s.set(a.Settings)
	case "scenario":
		return s.perform(a.Scenario)
	default:
		return refuse("do", "unknown action")
	}
}

// click sends n requests simultaneously. A later action can cancel the requests that
// are not yet decided; they count as undecided. If the page shows a scenario, click first
// ends it and restores the user's settings.
func (s *session) click(n int) error {
	if n < 1 || n > maxBurst {
		return refuse("n", "a click sends %d requests; must be 1 to %d", n, maxBurst)
	}
	if s.leavesScenario() {
		s.stopBackground()
		s.restoreLayout()
	}
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	s.setCancel(stop)
	s.send(ctx, 0, n)
	return nil
}

// reset stops the background traffic, resets the keys, and clears the counts and
// charts.
func (s *session) reset() error {
	s.stopBackground()
	err := s.current().reset(s.ctx)
	s.setLayout(plainLayout(s.store), s.userSettings())
	if err == nil {
		err = s.current().reset(s.ctx)
	}
	if err != nil {
		return &refusal{Detail: reason(err), status: http.StatusServiceUnavailable}
	}
	return nil
}

// set changes the settings while traffic continues. Spent units stay spent, because the
// keys and the policy's name do not change.
func (s *session) set(settings *Settings) error {
	if settings == nil {
		return refuse("settings", "settings are missing")
	}
	if err := settings.validate(); err != nil {
		return err
	}
	s.keepSaved(settings)
	s.setStage(s.layout.build(*settings, s.store), false)
	return nil
}

// keepSaved applies a change during a scenario to the saved settings. A changed limit
// replaces them.
func (s *session) keepSaved(settings *Settings) {
	if s.saved == nil {
		return
	}
	changed := s.current().settings
	changed.Key, changed.Dialect = settings.Key, settings.Dialect
	if changed != *settings {
		s.saved = nil
		return
	}
	s.saved.Key, s.saved.Dialect = settings.Key, settings.Dialect
}

func writeRefusal(w http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{Detail: "internal error", status: http.StatusInternalServerError}
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(r) // fails only if the client has disconnected
}

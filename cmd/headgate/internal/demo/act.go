package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// action is what was pressed on a page.
type action struct {
	Session  string    `json:"session"`
	Do       string    `json:"do"`       // send, stream, stop, reset, set, scenario
	N        int       `json:"n"`        // send: how many
	Rate     float64   `json:"rate"`     // stream: requests a second
	Settings *Settings `json:"settings"` // set
	Scenario string    `json:"scenario"` // scenario: its name
}

const maxActionBytes = 4 << 10

// act takes one action and answers when it is done: 204, or a problem that names the control to blame.
func (h *Handler) act(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	a, err := readAction(r)
	if err == nil {
		err = h.do(a)
	}
	// A slow store may have taken longer than the server gives other answers; not every server can.
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
		return a, refuse("", "this is no action: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return a, refuse("", "there is more behind the action")
	}
	return a, nil
}

func (h *Handler) do(a action) error {
	s, err := h.session(a.Session)
	if err != nil {
		return err
	}
	if a.Do != "send" && a.Do != "set" {
		s.cutClick() // a slow store is not waited for
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
		s.stopScript()
		return nil
	case "reset":
		return s.reset()
	case "set":
		return s.set(a.Settings)
	case "scenario":
		return s.perform(a.Scenario)
	default:
		return refuse("do", "there is no such action")
	}
}

// click sends n requests at once; those that a later action cuts off stay undecided. What a scenario compares is put away for them.
func (s *session) click(n int) error {
	if n < 1 || n > maxBurst {
		return refuse("n", "a click sends %d requests; accepted are 1 to %d", n, maxBurst)
	}
	if s.leavesScenario() {
		s.stopScript()
		s.plain()
	}
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	s.onCut(stop)
	s.send(ctx, 0, n)
	return nil
}

// leavesScenario reports whether what is shown has more tracks than clicks make.
func (s *session) leavesScenario() bool { return len(s.current().tracks) > 1 }

// reset stops the traffic, forgets what was spent, and begins to count anew.
func (s *session) reset() error {
	s.stopScript()
	err := s.current().reset(s.ctx)
	s.lay(plainLayout(s.store), s.current().settings)
	if err == nil {
		err = s.current().reset(s.ctx)
	}
	if err != nil {
		return &refusal{Detail: reason(err), status: http.StatusServiceUnavailable}
	}
	return nil
}

// set changes the settings while everything goes on. What was spent is kept: the keys and the policy's name stay.
func (s *session) set(settings *Settings) error {
	if settings == nil {
		return refuse("settings", "there are no settings")
	}
	if err := settings.validate(); err != nil {
		return err
	}
	s.put(s.layout.build(*settings, s.store), false)
	return nil
}

func writeRefusal(w http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{Detail: "this did not work", status: http.StatusInternalServerError}
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(r) // the client is gone, if this fails
}

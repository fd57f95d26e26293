package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// healthTimeout bounds the question to the store, however patient the store is.
const healthTimeout = time.Second

// HealthOptions are what /readyz reports. The zero value of each field leaves it out; nil means all of them.
type HealthOptions struct {
	// Store is the name of the store.
	Store string
	// Config returns how many configurations have taken effect, and whether the one in the file now was refused; nil means that
	// there is no file.
	Config func() (generation uint64, refused bool)
	// ControlPlane returns whether the control plane of Envoy's rules is connected, and whether it has sent rules that are in
	// effect; nil means that there is none.
	ControlPlane func() (connected, configured bool)
}

// Health answers /livez and /readyz, on any listener. It is made with [NewHealth] and may be used concurrently.
type Health struct {
	engine   *engine.Engine
	opts     HealthOptions
	ready    http.Handler
	live     http.Handler
	draining atomic.Bool
}

// NewHealth makes the health paths of e. opts may be nil.
func NewHealth(e *engine.Engine, opts *HealthOptions) *Health {
	h := &Health{engine: e}
	if opts != nil {
		h.opts = *opts
	}
	h.ready, h.live = reading(h.writeReady), reading(writeLive)
	return h
}

// Drain makes /readyz report from now on that this instance is going away.
func (h *Health) Drain() { h.draining.Store(true) }

// ServeHTTP answers /livez, which needs no store, and any other path as /readyz.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/livez" {
		h.live.ServeHTTP(w, r)
		return
	}
	h.ready.ServeHTTP(w, r)
}

// writeLive answers as long as the process runs.
func writeLive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}

// readiness is the body of /readyz.
type readiness struct {
	Status  string       `json:"status"` // ok, degraded or draining
	Store   string       `json:"store"`
	Trouble string       `json:"trouble,omitempty"` // why it is degraded: the store's, without address and detail, which the log has
	Config  *configState `json:"config,omitempty"`

	ControlPlane *controlPlaneState `json:"control_plane,omitempty"`
}

// controlPlaneState is what /readyz says of the control plane of Envoy's rules.
type controlPlaneState struct {
	Connected  bool `json:"connected"`
	Configured bool `json:"configured"` // it has said rules that hold
}

// configState is what /readyz says of the configuration file.
type configState struct {
	Generation uint64 `json:"generation"`        // how many configurations have taken effect
	Refused    bool   `json:"refused,omitempty"` // what the file holds now is wrong, and the last good one in force; the log says why
}

// writeReady reports whether this instance should be sent requests. While the store is unavailable it should: the failure mode of
// each policy applies, here as on every other instance.
func (h *Health) writeReady(w http.ResponseWriter, r *http.Request) {
	state, status := readiness{Status: "ok", Store: h.opts.Store}, http.StatusOK
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	if err := h.engine.Health(ctx); err != nil {
		state.Status, state.Trouble = "degraded", engine.StoreErrorReason(err)
	}
	if h.opts.Config != nil {
		state.Config = new(configState)
		if state.Config.Generation, state.Config.Refused = h.opts.Config(); state.Config.Refused {
			state.Status = "degraded"
		}
	}
	if h.opts.ControlPlane != nil {
		connected, configured := h.opts.ControlPlane()
		state.ControlPlane = &controlPlaneState{connected, configured}
		if !connected || !configured {
			state.Status = "degraded"
		}
	}
	if h.draining.Load() {
		state.Status, status = "draining", http.StatusServiceUnavailable
	}
	body, _ := json.Marshal(state) // strings always can be
	w.Header()["Content-Type"] = jsonType
	w.Header()["Cache-Control"] = noStore
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

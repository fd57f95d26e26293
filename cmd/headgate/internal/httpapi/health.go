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

// healthTimeout is the timeout of a health check. It is independent of the timeout of
// the store.
const healthTimeout = time.Second

// HealthOptions define the content of /readyz. A field with its zero value is omitted
// from the response; nil options omit all of them.
type HealthOptions struct {
	// Store is the name of the store.
	Store string
	// NodesUnavailable returns the number of unavailable nodes of the store.
	NodesUnavailable func() int
	// SavingFails returns whether the store cannot save its state. nil means that the
	// store saves none.
	SavingFails func() bool
	// Config returns the number of configurations that have taken effect, and whether
	// the current configuration file was rejected. nil means that there is no file.
	Config func() (generation uint64, refused bool)
	// ControlPlane is about the control plane that sends Envoy rules. It returns
	// whether the control plane is connected, and whether it has sent rules that are
	// active. nil means that there is no control plane.
	ControlPlane func() (connected, configured bool)
}

// Health is a handler for /livez and /readyz, for any listener. It is created with
// [NewHealth] and may be used concurrently.
type Health struct {
	engine   *engine.Engine
	opts     HealthOptions
	ready    http.Handler
	live     http.Handler
	draining atomic.Bool
}

// NewHealth returns a handler for health checks of e. opts may be nil.
func NewHealth(e *engine.Engine, opts *HealthOptions) *Health {
	h := &Health{engine: e}
	if opts != nil {
		h.opts = *opts
	}
	h.ready, h.live = readOnly(h.writeReady), readOnly(writeLive)
	return h
}

// Drain makes /readyz report that this instance is shutting down.
func (h *Health) Drain() { h.draining.Store(true) }

// ServeHTTP treats every path other than /livez as /readyz. /livez does not use the
// store.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/livez" {
		h.live.ServeHTTP(w, r)
		return
	}
	h.ready.ServeHTTP(w, r)
}

// writeLive responds with status 200, which shows that the process is running.
func writeLive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}

// readiness is the response body of /readyz.
type readiness struct {
	Status string `json:"status"` // ok, degraded or draining
	Store  string `json:"store"`
	// Reason why the store is unavailable; its address and details are only logged.
	Reason string `json:"reason,omitempty"`
	// Number of nodes of the store that are unavailable. The health check uses one key,
	// which may be on another node.
	NodesUnavailable int `json:"nodes_unavailable,omitempty"`

	// Whether the store cannot save its state: a restart would forget what is admitted.
	SavingFails bool `json:"saving_fails,omitempty"`

	Config *configState `json:"config,omitempty"`

	ControlPlane *controlPlaneState `json:"control_plane,omitempty"`
}

// controlPlaneState is the state of the control plane that sends Envoy rules.
type controlPlaneState struct {
	Connected  bool `json:"connected"`
	Configured bool `json:"configured"` // whether it has sent rules that are active
}

// configState is the state of the configuration file.
type configState struct {
	Generation uint64 `json:"generation"` // number of configurations that have taken effect
	// Whether the file was rejected, so that the last valid configuration is active.
	Refused bool `json:"refused,omitempty"`
}

// writeReady reports whether this instance should receive requests: status 503 while it
// is draining, otherwise 200. The status is also 200 while the store is unavailable.
// The failure mode of each policy then applies, and other instances could not do
// better.
func (h *Health) writeReady(w http.ResponseWriter, r *http.Request) {
	state, status := readiness{Status: "ok", Store: h.opts.Store}, http.StatusOK
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	if err := h.engine.Health(ctx); err != nil {
		state.Status, state.Reason = "degraded", engine.StoreErrorReason(err)
	}
	if h.opts.NodesUnavailable != nil {
		if state.NodesUnavailable = h.opts.NodesUnavailable(); state.NodesUnavailable > 0 {
			state.Status = "degraded"
		}
	}
	if h.opts.SavingFails != nil {
		if state.SavingFails = h.opts.SavingFails(); state.SavingFails {
			state.Status = "degraded"
		}
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
	body, _ := json.Marshal(state) // never fails for this type
	w.Header()["Content-Type"] = jsonType
	w.Header()["Cache-Control"] = noStore
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

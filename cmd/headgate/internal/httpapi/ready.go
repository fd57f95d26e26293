package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// healthTimeout bounds the question to the store, however patient the store is.
const healthTimeout = time.Second

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

// ready says whether this instance should be sent requests. While the store is away it should: what the policies say for that case
// holds, here as on every other instance.
func (h *Handler) ready(w http.ResponseWriter, r *http.Request) {
	if !readMethod(w, r) {
		return
	}
	state, status := readiness{Status: "ok", Store: h.store}, http.StatusOK
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	if err := h.engine.Health(ctx); err != nil {
		state.Status, state.Trouble = "degraded", engine.Trouble(err)
	}
	if h.config != nil {
		state.Config = new(configState)
		if state.Config.Generation, state.Config.Refused = h.config(); state.Config.Refused {
			state.Status = "degraded"
		}
	}
	if h.controlPlane != nil {
		connected, configured := h.controlPlane()
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

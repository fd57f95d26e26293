package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/headgate/headgate"
)

// Time intervals and timeouts of the event stream.
const (
	framePause   = 50 * time.Millisecond
	retryPause   = time.Second     // after which a disconnected page reconnects
	heartbeat    = time.Second     // after which a frame is sent even without changes
	writeTimeout = 5 * time.Second // for sending one event; if the page reads too slowly, its session ends
)

// pageState is the complete state of the page. It is sent when any part of it changes.
type pageState struct {
	Session  string                          `json:"session"`
	Settings Settings                        `json:"settings"`
	Tracks   []string                        `json:"tracks"` // names of the tracks
	Playing  string                          `json:"playing"`
	Note     string                          `json:"note"`
	Result   string                          `json:"result"`  // what the last scenario showed; empty if there is none
	SpanUS   int64                           `json:"span_us"` // time span of the charts, in µs
	Code     map[headgate.Algorithm]snippets `json:"code"`
}

// events serves the event stream of one page. It opens a session, which ends with the
// stream.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return // a HEAD request can't receive events and needs no session
	}
	s, err := h.openSession(r.Context())
	if err != nil {
		writeRefusal(w, err)
		return
	}
	defer h.closeSession(s)
	h.opts.Log.Debug("demo page connected", "store", h.opts.Store)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // reverse proxies must not buffer events
	out := &stream{w: w, control: http.NewResponseController(w)}
	fmt.Fprintf(w, "retry: %d\n\n", retryPause.Milliseconds())
	if err := h.broadcast(s, out); err != nil && s.ctx.Err() == nil {
		h.opts.Log.Debug("demo page disconnected", "error", err)
	}
}

// broadcast sends frames until the session ends, the page reads too slowly or
// disconnects, or the idle timeout has passed.
func (h *Handler) broadcast(s *session, out *stream) error {
	ticker := time.NewTicker(framePause)
	defer ticker.Stop()
	c := &camera{s: s, second: time.Now()}
	known := -1
	var last frame
	var sent time.Time
	for {
		if t, version := h.pageState(s); version != known {
			known = version
			if err := out.send("state", t); err != nil {
				return err
			}
		}
		f := c.frame(s.ctx)
		if !isUnchanged(last, f) || time.Since(sent) >= heartbeat {
			if err := out.send("frame", f); err != nil {
				return err
			}
			last, sent = f, time.Now()
		}
		if s.idle() > h.opts.IdleTimeout {
			return out.send("bye", struct{}{})
		}
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-ticker.C:
		}
	}
}

// isUnchanged reports whether two frames differ only in their time.
func isUnchanged(before, f frame) bool {
	before.T, before.Rows, before.Edge = f.T, nil, f.Edge
	return reflect.DeepEqual(before, f)
}

// pageState returns the current state of the page and the number of its version.
func (h *Handler) pageState(s *session) (pageState, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := pageState{
		Session: s.id, Settings: s.stage.settings, Playing: s.playing, Note: s.note, Result: s.result,
		SpanUS: s.stage.settings.span().Microseconds(),
		Code:   make(map[headgate.Algorithm]snippets),
	}
	for _, track := range s.stage.tracks {
		t.Tracks = append(t.Tracks, track.name)
	}
	for _, a := range algorithms() {
		t.Code[a] = s.stage.settings.snippets(a, h.opts.CheckURL)
	}
	return t, s.stateVersion
}

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (o *stream) send(event string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_ = o.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every server supports deadlines
	if _, err := fmt.Fprintf(o.w, "event: %s\ndata: %s\n\n", event, text); err != nil {
		return err
	}
	return o.control.Flush()
}

// serveState serves the server's record of a session. Tests compare it with what the
// page displays.
func (h *Handler) serveState(w http.ResponseWriter, r *http.Request) {
	s, err := h.session(r.URL.Query().Get("session"))
	if err != nil {
		writeRefusal(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(s.snapshot()) // fails only if the client has disconnected
}

// kept is the server's record of a session, as JSON.
type kept struct {
	Settings Settings    `json:"settings"`
	Playing  string      `json:"playing"`
	Result   string      `json:"result"`
	Epoch    int         `json:"epoch"`
	Sent     int64       `json:"sent"`
	Tracks   []keptTrack `json:"tracks"`
	Rows     []rowFrame  `json:"rows"`
}

type keptTrack struct {
	Name  string     `json:"name"`
	Gates []keptGate `json:"gates"`
}

type keptGate struct {
	Algorithm headgate.Algorithm `json:"algorithm"`
	Allowed   int64              `json:"allowed"`
	Denied    int64              `json:"denied"`
	Undecided int64              `json:"undecided"`
	Most      int64              `json:"most"`
	Last      *answer            `json:"last"`
}

func (s *session) snapshot() kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &s.journal
	k := kept{Settings: s.stage.settings, Playing: s.playing, Result: s.result, Epoch: j.epoch, Sent: j.seq, Rows: j.table(s.stage)}
	for i, t := range s.stage.tracks {
		kt := keptTrack{Name: t.name}
		for g, a := range algorithms() {
			c := &j.tallies[i][g]
			last := c.last.answer()
			if last != nil {
				last.Fields = s.stage.settings.fields(a, c.last)
			}
			kt.Gates = append(kt.Gates, keptGate{a, c.allowed, c.denied, c.undecided, c.peak.most, last})
		}
		k.Tracks = append(k.Tracks, kt)
	}
	return k
}

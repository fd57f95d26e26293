package demo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

// play starts a scenario on a new page and waits until it has sent enough.
func play(t *testing.T, url, name string, sent int64) state {
	t.Helper()
	p := newTab(t, url)
	p.mustAct(t, map[string]any{"do": "scenario", "scenario": name})
	p.until(t, name, func(s state) bool { return s.Sent >= sent })
	p.mustAct(t, map[string]any{"do": "stop"})
	return p.state(t)
}

// by returns a track's gates by algorithm.
func (s state) by(track int) map[string]gateState {
	gates := make(map[string]gateState)
	for _, g := range s.Tracks[track].Gates {
		gates[g.Algorithm] = g
	}
	return gates
}

// TestScenarios: each scenario shows on the real store what its text describes.
func TestScenarios(t *testing.T) {
	t.Parallel()
	url := serve(t, demo.Options{}).URL
	t.Run("edge", func(t *testing.T) {
		t.Parallel()
		// On a busy machine some of the first ten requests arrive too late: the
		// scenario is then repeated.
		for deadline := time.Now().Add(deadline); ; {
			p := newTab(t, url)
			p.mustAct(t, map[string]any{"do": "scenario", "scenario": "edge"})
			s := p.until(t, "a result", func(s state) bool { return s.Result != "" })
			gates := s.by(0)
			log, window := gates["sliding_log"].Allowed, gates["fixed_window"].Allowed
			if most := gates["sliding_log"].Most; most > 10 {
				t.Errorf("the sliding log: got %d in one period want at most 10", most)
			}
			if headline := "Fixed window allowed 20 requests within 4 s: twice the limit of 10.\n"; window == 20 && !strings.HasPrefix(s.Result, headline) {
				t.Errorf("the result: got %q want %q", s.Result, headline)
			}
			if log == 10 && window >= 15 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the sliding log let %d through want 10, the fixed window %d want both tens", log, window)
			}
		}
	})
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		s := play(t, url, "servers", 46)
		for algorithm, one := range s.by(0) {
			if each := s.by(1)[algorithm]; each.Allowed <= one.Allowed {
				t.Errorf("%s: two stores let %d through, one %d; want more", algorithm, each.Allowed, one.Allowed)
			}
		}
	})
	t.Run("patience", func(t *testing.T) {
		t.Parallel()
		s := play(t, url, "patience", 55)
		for algorithm, patient := range s.by(0) {
			if hasty := s.by(1)[algorithm]; patient.Denied != 0 || patient.Allowed == 0 || hasty.Denied == 0 {
				t.Errorf("%s: the patient client has %+v, the hasty one %+v; want denials of the hasty one alone", algorithm, patient, hasty)
			}
		}
	})
	t.Run("hot", func(t *testing.T) {
		t.Parallel()
		s := play(t, url, "hot", 300)
		for algorithm, hot := range s.by(0) {
			if other := s.by(1)[algorithm]; other.Denied != 0 || other.Allowed == 0 || hot.Denied == 0 {
				t.Errorf("%s: the hot key has %+v, the other %+v; want denials of the hot one alone", algorithm, hot, other)
			}
		}
	})
	t.Run("pause", func(t *testing.T) {
		t.Parallel()
		s := play(t, url, "pause", 5)
		if got := s.by(0)["token_bucket"]; got.Allowed < 5 || got.Last.Limit != 20 {
			t.Errorf("the token bucket: got %+v want a burst of 20", got)
		}
	})
}

// TestClickEndsScenario: a click removes the tracks of a scenario.
func TestClickEndsScenario(t *testing.T) {
	t.Parallel()
	p := newTab(t, serve(t, demo.Options{}).URL)
	p.mustAct(t, map[string]any{"do": "scenario", "scenario": "servers"})
	p.until(t, "two tracks", func(s state) bool { return len(s.Tracks) == 2 && s.Sent > 0 })
	p.set(t, func(s *demo.Settings) { s.Rate = 7 }) // during the scenario
	if s := p.state(t); s.Settings.Rate != 7 || s.Playing != "servers" {
		t.Errorf("a setting changed under a scenario: got %+v, playing %q", s.Settings, s.Playing)
	}
	p.mustAct(t, map[string]any{"do": "send", "n": 2})
	if s := p.state(t); len(s.Tracks) != 1 || s.Playing != "" || s.Tracks[0].Gates[0].Allowed+s.Tracks[0].Gates[0].Denied != 2 {
		t.Errorf("after a click: got %+v want one track, two requests, no scenario", s)
	}
}

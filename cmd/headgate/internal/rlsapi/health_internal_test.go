package rlsapi

import (
	"runtime"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/memstore"
)

// TestLatestHealthIsPublishedLast: a change during the publication of an older state is
// published after it.
func TestLatestHealthIsPublishedLast(t *testing.T) {
	t.Parallel()
	e, err := engine.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := envoyconfig.Parse([]envoyconfig.File{{Name: "d.yaml", Content: []byte("domain: d\n")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		first, second func(h *Handler)
		want          bool
	}{
		{"configuration while the server starts", func(*Handler) {}, func(h *Handler) { _ = h.Apply(config) }, true},
		{"drain during a reload", func(h *Handler) { _ = h.Apply(config) }, (*Handler).Drain, false},
	} {
		h, err := New(e, &Options{NeedDomains: true})
		if err != nil {
			t.Fatal(err)
		}
		c.first(h)
		ended, begun, last := make(chan struct{}), false, !c.want
		h.publishTo(func(healthy bool) {
			if !begun {
				begun = true
				go func() { defer close(ended); c.second(h) }()
				for range 10_000 { // without a lock the other goroutine publishes meanwhile
					runtime.Gosched()
				}
			}
			last = healthy
		})
		if <-ended; last != c.want {
			t.Errorf("%s: the state published last is %v, want %v", c.name, last, c.want)
		}
	}
}

func TestRepeatedUnknownDomainDoesNotAllocate(t *testing.T) {
	c := newCounters()
	if n := testing.AllocsPerRun(10, func() { c.countUnknownDomain("a:b", 1) }); n != 0 {
		t.Errorf("a second request for an unknown domain allocates %v times, want 0", n)
	}
	c.countUnknownDomain("a|b", 1)
	if _, domains := c.load(); len(domains) != 1 || domains["a_b"] != 12 {
		t.Errorf("got %v, want 12 requests for a_b", domains)
	}
}

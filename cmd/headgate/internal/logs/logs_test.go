package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

// slow is a writer whose writes block until through is closed.
type slow struct {
	through chan struct{}
	written bytes.Buffer
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.through
	return s.written.Write(p)
}

func TestQueueDropsLinesWithoutBlocking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := &slow{through: make(chan struct{})}
		q := logs.NewQueue(to, 100)
		fmt.Fprint(q, "first\n")
		synctest.Wait() // it is being written
		for i := range 30 {
			fmt.Fprintf(q, "line %02d..\n", i) // 10 bytes
		}
		if n := q.Dropped(); n != 20 {
			t.Errorf("%d lines were dropped, want 20: 10 of 30 fit", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: got %v, want context.DeadlineExceeded", err)
		}
		close(to.through)
		if err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := to.written.String(); !strings.HasPrefix(got, "first\nline 00..\n") || strings.Count(got, "\n") != 11 || !strings.HasSuffix(got, "line 09..\n") {
			t.Errorf("written: %q, want the first line and the ten that fit", got)
		}
		fmt.Fprint(q, "late\n")
		if n := q.Dropped(); n != 21 {
			t.Errorf("%d lines were dropped, want 21: one was written after Close", n)
		}
	})
}

// broken is a writer whose writes fail.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestQueueCountsFailedWritesAsDropped(t *testing.T) {
	t.Parallel()
	q := logs.NewQueue(broken{}, 1000)
	for range 3 {
		fmt.Fprint(q, "line\n")
	}
	if err := q.Close(t.Context()); err != nil || q.Dropped() != 3 {
		t.Errorf("%v, %d dropped; want 3", err, q.Dropped())
	}
}

func TestQueueWritesAllLinesInOrder(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	q := logs.NewQueue(&out, 1<<20)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 500 {
				fmt.Fprintf(q, "{%d %d}\n", i, j)
			}
		})
	}
	all.Wait()
	if err := q.Close(t.Context()); err != nil || q.Dropped() != 0 {
		t.Fatalf("%v, %d dropped", err, q.Dropped())
	}
	last := make(map[int]int)
	for line := range strings.Lines(out.String()) {
		var i, j int
		if _, err := fmt.Sscanf(line, "{%d %d}\n", &i, &j); err != nil || j != last[i] {
			t.Fatalf("line %q: %v, want number %d", line, err, last[i])
		}
		last[i]++
	}
	for i := range 8 {
		if last[i] != 500 {
			t.Errorf("%d lines of %d, want 500", last[i], i)
		}
	}
}

func TestSamplerLimitsLinesPerSecond(t *testing.T) {
	t.Parallel()
	var s logs.Sampler
	for i, c := range []struct {
		now        time.Duration
		suppressed uint64
		ok         bool
	}{{0, 0, true}, {1, 0, true}, {2, 0, false}, {999 * time.Millisecond, 0, false}, {time.Second, 2, true}, {time.Second, 0, true}, {time.Second, 0, false}} {
		if suppressed, ok := s.Take(int64(c.now), 2); suppressed != c.suppressed || ok != c.ok {
			t.Errorf("line %d: %d suppressed, %v; want %d, %v", i, suppressed, ok, c.suppressed, c.ok)
		}
	}
	if n := s.Suppressed(); n != 3 {
		t.Errorf("%d were suppressed, want 3", n)
	}
}

func TestForHTTPRemovesAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ message, want string }{
		{"http: TLS handshake error from 203.0.113.9:59958: unexpected EOF", "http: TLS handshake error from …: unexpected EOF"},
		{
			"http: TLS handshake error from [2001:db8::7%eth0]:59958: read tcp [::1]:80->[2001:db8::7]:9: connection reset by peer",
			"http: TLS handshake error from …: read tcp …->…: connection reset by peer",
		},
		{"http: panic serving [::ffff:203.0.113.9]:1: x\ngoroutine 1\n", "http: panic serving …: x\ngoroutine 1"},
		{"client offered only unsupported versions: [302 301]", "client offered only unsupported versions: [302 301]"},
		{strings.Repeat("x", 10_000), strings.Repeat("x", 8192)},
	} {
		var out bytes.Buffer
		logs.ForHTTP(slog.New(slog.NewJSONHandler(&out, nil))).Print(c.message)
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["error"] != c.want || line["level"] != "WARN" {
			t.Errorf("%.80q: logged %.200s (%v), want %.80q", c.message, out.String(), err, c.want)
		}
	}
}

func TestForHTTPLimitsLinesPerSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := logs.ForHTTP(slog.New(slog.NewTextHandler(&out, nil)))
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
		for range 25 {
			l.Print("broken")
		}
		time.Sleep(time.Second)
		l.Print("broken")
		if got := out.String(); strings.Count(got, "\n") != 11 || !strings.Contains(got, "suppressed=15") {
			t.Errorf("logged\n%s\nwant ten lines, and one with suppressed=15", got)
		}
	})
	logs.ForHTTP(nil).Print("discarded")
}

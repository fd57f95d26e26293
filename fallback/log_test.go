package fallback_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
)

// logger returns a logger that writes lines without the time to the buffer.
func logger(to *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// makeOutage makes the store unavailable for 10,000 requests and then lets it recover.
func makeOutage(t *testing.T, opts *fallback.Options) {
	t.Helper()
	inner := newFaultyStore()
	s, err := fallback.New(inner, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := limiter(t, s, "", "10/1s", headgate.FailOpen)
	inner.set(failWith(headgate.ReasonUnreachable))
	for range 10_000 {
		l.Allow(background, "secret")
		time.Sleep(time.Millisecond)
	}
	inner.clearFault()
	for range 1000 {
		l.Allow(background, "secret")
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

const outageLog = `level=WARN msg="store unavailable" reason=unreachable error="headgate: faulty: unreachable; wait"
level=INFO msg="store recovered"
`

// Without an observer, slog's default logger logs one line per outage and one per
// recovery, and none per request.
func TestOutageIsLoggedByDefault(t *testing.T) { //nolint:paralleltest // it changes slog's default logger
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(logger(&log))
	for _, opts := range []*fallback.Options{nil, {}} {
		log.Reset()
		synctest.Test(t, func(t *testing.T) { makeOutage(t, opts) })
		if log.String() != outageLog {
			t.Errorf("options %v: logged\n%swant\n%s", opts, log.String(), outageLog)
		}
	}
	log.Reset()
	synctest.Test(t, func(t *testing.T) {
		makeOutage(t, &fallback.Options{Observer: fallback.LogEvents(slog.New(slog.DiscardHandler))})
	})
	if log.Len() > 0 {
		t.Errorf("with a logger that discards: logged\n%swant nothing", log.String())
	}
}

func TestLogEvents(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		makeOutage(t, &fallback.Options{Observer: fallback.LogEvents(logger(&log))})
	})
	if log.String() != outageLog {
		t.Errorf("logged\n%swant\n%s", log.String(), outageLog)
	}

	log.Reset()
	o := fallback.LogEvents(logger(&log))
	o.ObserveStore(headgate.StoreEvent{Node: "10.0.0.1:6379", Unavailable: true, Reason: headgate.ReasonTimedOut, Err: errors.Join(context.DeadlineExceeded)})
	o.ObserveStore(headgate.StoreEvent{Node: "10.0.0.1:6379"})
	if n := strings.Count(log.String(), " node=10.0.0.1:6379"); n != 2 {
		t.Errorf("events of a node: logged\n%swant its name in both lines", log.String())
	}
}

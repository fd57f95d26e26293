package respapi

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
)

// spanLog records the spans of commands.
type spanLog struct {
	mu    sync.Mutex
	spans []string
}

func (l *spanLog) Command(ctx context.Context, name, traceparent string) (context.Context, func(error)) {
	return ctx, func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		text := strings.TrimSpace(name + " " + traceparent)
		if err != nil {
			text += " failed"
		}
		l.spans = append(l.spans, text)
	}
}

// A traceparent is the parent of the next decision only, also of a pipelined one and of
// one in a transaction.
func TestTrace(t *testing.T) {
	t.Parallel()
	const first, second = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-00"
	log := &spanLog{}
	s := serve(t, transports[0], nil, Options{Tracer: log}, nil)
	conn := s.dial()
	s.write(conn, request("HG.TRACE", first)+request("PING")+request("CL.THROTTLE", "k", "4", "5", "60")+request("CL.THROTTLE", "k", "4", "5", "60")+
		request("HG.CHECK", "none", "k")+request("MULTI")+request("HG.TRACE", second)+request("THROTTLE", "k", "4", "5", "60")+request("EXEC")+request("QUIT"))
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	reply := string(all)
	if !strings.HasPrefix(reply, "+OK\r\n+PONG\r\n*5\r\n:0\r\n") || strings.Contains(reply, "-ERR") {
		t.Errorf("got %q, want replies without an error", reply)
	}
	want := []string{"CL.THROTTLE " + first, "CL.THROTTLE", "HG.CHECK failed", "THROTTLE " + second}
	log.mu.Lock()
	defer log.mu.Unlock()
	if !slices.Equal(log.spans, want) {
		t.Errorf("got %q, want %q", log.spans, want)
	}
}

// A text that is not a traceparent is an error, also without a tracer.
func TestInvalidTraceparent(t *testing.T) {
	t.Parallel()
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for text, want := range map[string]bool{
		valid: true, valid + "-more": true, "": false, valid[1:]: false, valid + "x": false, strings.ToUpper(valid): false,
		strings.Replace(valid, "-", "_", 1): false, valid + "-" + strings.Repeat("0", 128): false, valid[:54] + "g": false,
	} {
		if got := isTraceparent([]byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

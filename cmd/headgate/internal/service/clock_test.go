package service_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// The service logs and counts that the clock of its Redis server went back.
func TestStoreClockSetBack(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	clock.Store(2e15)
	redis := testserver.Scripted(t, func(command []string, _ io.Writer) string {
		switch command[0] {
		case "HELLO":
			return "%2\r\n+proto\r\n:3\r\n+mode\r\n+standalone\r\n"
		case "EVALSHA": // the instant, and the state of one key that does not exist
			return "$33\r\n" + string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(clock.Load())))) + strings.Repeat("\x00", 25) + "\r\n"
		default:
			return "+OK\r\n"
		}
	})
	log := new(testserver.Log)
	s, err := newService(t, log, map[string]string{"store": "redis://" + redis, "store_budget": "10s", "http.addr": "127.0.0.1:0", "metrics.addr": "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	ready := "http://" + awaitLog(t, log, `listener=http address=(\S+)`) + "/readyz"
	if got := statusOf(t, ready); got != http.StatusOK {
		t.Fatalf("readyz: got status %d want 200", got)
	}
	clock.Add(-3600e6)
	if got := statusOf(t, ready); got != http.StatusOK {
		t.Fatalf("readyz: got status %d want 200", got)
	}
	awaitLog(t, log, `level=WARN msg="clock of the store went back; keys in use are denied for longer" back=(1h0m|59m59)`)
	resp, err := http.Get("http://" + awaitLog(t, log, `listener=metrics address=(\S+)`) + "/metrics") //nolint:noctx // it answers immediately
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "\nheadgate_store_clock_set_back_total 1\n") {
		t.Errorf("metrics: error %v, want headgate_store_clock_set_back_total 1", err)
	}
	cancel()
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Error(err)
	}
}

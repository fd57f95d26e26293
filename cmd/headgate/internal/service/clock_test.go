package service_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/internal/testserver"
)

// runService starts a service with this store and returns its log, the URL of /readyz,
// and a function that stops it and checks that its metrics contain a line.
func runService(t *testing.T, store string) (log *testserver.Log, ready string, endWithMetric func(line string)) {
	t.Helper()
	log = new(testserver.Log)
	s, err := newService(t, log, map[string]string{"store": store, "store_budget": "10s", "http.addr": "127.0.0.1:0", "metrics.addr": "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return log, "http://" + awaitLog(t, log, `listener=http address=(\S+)`) + "/readyz", func(line string) {
		t.Helper()
		resp, err := http.Get("http://" + awaitLog(t, log, `listener=metrics address=(\S+)`) + "/metrics") //nolint:noctx // it answers immediately
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("metrics: error %v, want %s", err, line)
		}
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	}
}

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
	log, ready, endWithMetric := runService(t, "redis://"+redis)
	if got := statusOf(t, ready); got != http.StatusOK {
		t.Fatalf("readyz: got status %d want 200", got)
	}
	clock.Add(-3600e6)
	if got := statusOf(t, ready); got != http.StatusOK {
		t.Fatalf("readyz: got status %d want 200", got)
	}
	awaitLog(t, log, `level=WARN msg="clock of the store went back; keys in use are denied for longer" back=(1h0m|59m59)`)
	endWithMetric("headgate_store_clock_set_back_total 1")
}

// clockItem is the name of the item in which the processes of a namespace compare their
// clocks on memcached: a hash of the namespace and of the word clock, each after its
// length.
func clockItem(namespace string) string {
	scope := sha256.Sum256([]byte(string(rune(len(namespace))) + namespace + "\x05clock\x00"))
	name := sha256.Sum256(scope[:])
	return "hg:" + base64.RawURLEncoding.EncodeToString(name[:16])
}

// setClockItem writes the item as another process does whose clock shows this time.
func setClockItem(t *testing.T, server *testserver.MemcachedServer, namespace string, clock time.Time) {
	t.Helper()
	value := binary.BigEndian.AppendUint64([]byte("\xb3another\x00"), uint64(clock.UnixMicro()))
	if got := server.Do(t, "set "+clockItem(namespace)+" 0 600 17\r\n"+string(value)); len(got) != 1 || got[0] != "STORED" {
		t.Fatalf("set: got %q want STORED", got)
	}
}

// The service logs and counts that its clock is behind the clock of another process that
// uses the same memcached server.
func TestStoreClockSkew(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	setClockItem(t, server, "test", time.Now().Add(time.Hour))
	log, ready, endWithMetric := runService(t, "memcached://"+server.Addr()+"?namespace=test")
	if got := statusOf(t, ready); got != http.StatusOK {
		t.Fatalf("readyz: got status %d want 200", got)
	}
	awaitLog(t, log, `level=WARN msg="local clock is behind the clock of another process of the store" behind=(1h0m|59m)`)
	endWithMetric(`headgate_store_clock_skew_total{direction="behind"} 1`)
}

func TestClockSkewLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	o := service.LogStoreEvents(slog.New(slog.NewTextHandler(&log, nil))).(storeopen.ClockObserver)
	o.ObserveClockSkew(1_234_567_890)
	o.ObserveClockSkew(-1_234_567_890)
	for _, want := range []string{
		`level=WARN msg="local clock is ahead of the clock of another process of the store" ahead=1.235s`,
		`level=WARN msg="local clock is behind the clock of another process of the store" behind=1.235s`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("got log %q want %q", log.String(), want)
		}
	}
}

// store check compares the local clock with the clocks of the server and of the last
// process.
func TestStoreCheckClock(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	setClockItem(t, server, "behind", time.Now().Add(time.Hour))
	setClockItem(t, server, "equal", time.Now())
	for namespace, want := range map[string]string{
		"behind": `warning: at least (1h0m0s|59m.*s) behind the clock of a process of namespace "behind"; the clock of each process decides`,
		"equal":  `ok: not behind the clock that a process of namespace "equal" wrote last`,
		"unused": `ok: no process of namespace "unused" has written its clock in the last hour`,
	} {
		found, err := storeopen.Check(t.Context(), "memcached://"+server.Addr()+"?namespace="+namespace)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			if f.Check == "clock" {
				got = append(got, string(f.Level)+": "+f.Says)
			}
		}
		if len(got) != 2 || got[0] != "ok: within 3s of the server's clock" || !regexp.MustCompile("^"+want+"$").MatchString(got[1]) {
			t.Errorf("%s: got %q want the clock of the server and %q", namespace, got, want)
		}
	}
}

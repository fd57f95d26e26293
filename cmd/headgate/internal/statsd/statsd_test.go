package statsd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/statsd"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/internal/testserver"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// packetServer receives UDP packets.
type packetServer struct{ conn net.PacketConn }

func listen(t *testing.T) *packetServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &packetServer{conn}
}

func (s *packetServer) packet(t *testing.T) string {
	t.Helper()
	buf := make([]byte, 64<<10)
	if err := s.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, _, err := s.conn.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// once runs a client for one report. A client sends a report when its context ends.
func once(opts statsd.Options) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	opts.Interval = time.Hour
	statsd.New(opts).Run(ctx)
}

func TestLines(t *testing.T) {
	t.Parallel()
	values := statsd.Values{
		Counters: map[string]uint64{"a.total_hits": 3, "a.over_limit": 0, "b:1|x\ny:1|c.total_hits": 2},
		Timers: []statsd.Timer{
			{Name: "t", Values: []time.Duration{1500 * time.Microsecond, 42 * time.Microsecond}, Events: 2},
			{Name: "t", Values: []time.Duration{time.Second}, Events: 8},
		},
	}
	for _, c := range []struct {
		format string
		tags   map[string]string
		want   string
	}{
		{"", nil, "a.total_hits:3|c\nb_1_x_y_1_c.total_hits:2|c\nt:1.5|ms\nt:0.042|ms\nt:1000|ms|@0.125\n"},
		{
			statsd.TagsInName,
			map[string]string{"zone": "eu", "build": "1.2:3", "empty": ""},
			"a.total_hits.__build=1_2_3.__zone=eu:3|c\nb_1_x_y_1_c.total_hits.__build=1_2_3.__zone=eu:2|c\n" +
				"t.__build=1_2_3.__zone=eu:1.5|ms\nt.__build=1_2_3.__zone=eu:0.042|ms\nt.__build=1_2_3.__zone=eu:1000|ms|@0.125\n",
		},
		{
			statsd.DogStatsD,
			map[string]string{"zone": "eu", "build": "7"},
			"a.total_hits:3|c|#build:7,zone:eu\nb_1_x_y_1_c.total_hits:2|c|#build:7,zone:eu\n" +
				"t:1.5|ms|#build:7,zone:eu\nt:0.042|ms|#build:7,zone:eu\nt:1000|ms|@0.125|#build:7,zone:eu\n",
		},
	} {
		s := listen(t)
		once(statsd.Options{
			Addr: s.conn.LocalAddr().String(), Protocol: "udp", Tags: c.tags, TagFormat: c.format,
			Read: func() statsd.Values { return values },
		})
		if got := s.packet(t); got != c.want {
			t.Errorf("tags %v: got %q, want %q", c.tags, got, c.want)
		}
	}
}

func TestPacketsAreBounded(t *testing.T) {
	t.Parallel()
	s := listen(t)
	counters := map[string]uint64{"ratelimit." + strings.Repeat("x", statsd.MaxPacketBytes): 1}
	for i := range 200 {
		counters[fmt.Sprintf("ratelimit.service.rate_limit.shop.user_%03d.total_hits", i)] = 1
	}
	once(statsd.Options{Addr: s.conn.LocalAddr().String(), Protocol: "udp", Read: func() statsd.Values { return statsd.Values{Counters: counters} }})
	lines := 0
	for lines < 200 {
		packet := s.packet(t)
		lines += strings.Count(packet, "\n")
		if len(packet) > statsd.MaxPacketBytes || !strings.HasSuffix(packet, "|c\n") || strings.Contains(packet, "xxxx") {
			t.Fatalf("got a packet of %d bytes that ends in %q, want whole lines of at most %d bytes", len(packet), packet[len(packet)-5:], statsd.MaxPacketBytes)
		}
	}
	if lines != 200 {
		t.Errorf("got %d lines, want 200", lines)
	}
}

// tcpServer sums the counters that it receives.
type tcpServer struct {
	mu   sync.Mutex
	sums map[string]int
	ln   net.Listener
}

func (s *tcpServer) serve() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return
		}
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			name, rest, _ := strings.Cut(lines.Text(), ":")
			n, _ := strconv.Atoi(strings.TrimSuffix(rest, "|c"))
			s.mu.Lock()
			s.sums[name] += n
			s.mu.Unlock()
		}
		_ = conn.Close()
	}
}

// The server receives every hit once, also those of the time while it was unavailable.
// A counter that begins again at 0 is sent from 0.
func TestNothingIsLostOrSentTwice(t *testing.T) {
	t.Parallel()
	addr := testserver.FreeAddr(t)
	var mu sync.Mutex
	counters, failed := map[string]uint64{"a": 5, "removed": 1}, 0
	log := new(testserver.Log)
	client := statsd.New(statsd.Options{
		Addr: addr, Protocol: "tcp", Interval: time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil)),
		Read: func() statsd.Values {
			mu.Lock()
			defer mu.Unlock()
			copied := make(map[string]uint64)
			for name, n := range counters {
				copied[name] = n
			}
			return statsd.Values{Counters: copied}
		},
		Report: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
			}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); client.Run(ctx) }()
	await(t, "the first failure", func() bool { mu.Lock(); defer mu.Unlock(); return failed > 0 })
	mu.Lock()
	counters["a"] = 7
	mu.Unlock()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &tcpServer{sums: map[string]int{}, ln: ln}
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.serve() }()
	sum := func(name string) int { s.mu.Lock(); defer s.mu.Unlock(); return s.sums[name] }
	await(t, "the counters of before", func() bool { return sum("a") == 7 && sum("removed") == 1 })
	mu.Lock()
	delete(counters, "removed")
	counters["a"] = 2 // began again
	mu.Unlock()
	await(t, "the new counter", func() bool { return sum("a") == 9 })
	mu.Lock()
	counters["a"], counters["removed"] = 3, 4
	mu.Unlock()
	await(t, "the counter that is back", func() bool { return sum("a") == 10 && sum("removed") == 5 })
	cancel()
	<-ended
	_ = ln.Close()
	<-stopped
	if text := log.String(); strings.Count(text, "statsd unavailable") != 1 || strings.Count(text, "statsd recovered") != 1 {
		t.Errorf("got the log\n%s\nwant one line for the failure and one for the recovery", text)
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

// The client reads once per interval, and once more at the end.
func TestInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads []time.Duration
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		var reported []error
		statsd.New(statsd.Options{
			Addr: "127.0.0.1:1", Protocol: "none", Interval: 10 * time.Second,
			Read:   func() statsd.Values { reads = append(reads, time.Since(begin)); return statsd.Values{} },
			Report: func(err error) { reported = append(reported, err) },
		}).Run(ctx)
		if want := []time.Duration{10 * time.Second, 20 * time.Second, 25 * time.Second}; !slices.Equal(reads, want) {
			t.Errorf("reads at %v, want %v", reads, want)
		}
		if len(reported) != 3 || errors.Join(reported...) == nil {
			t.Errorf("got reports %v, want 3 errors", reported)
		}
	})
}

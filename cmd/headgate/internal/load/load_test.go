package load_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/load"
	"github.com/headgate/headgate/cmd/headgate/internal/respapi"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/memstore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// server is a server of one protocol.
type server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// startServers starts a server of each protocol over one store. The policy one allows one
// call per key and day.
func startServers(t *testing.T) map[string]string {
	t.Helper()
	store := memstore.New(nil)
	e, err := engine.New(store, &engine.Options{Policies: map[string]headgate.Policy{
		"one": {Limits: []headgate.Limit{headgate.MustParseLimit("1/24h")}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	envoy, err := rlsapi.New(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := envoyconfig.Parse([]envoyconfig.File{{Name: "f.yaml", Content: []byte(rule)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := envoy.Apply(rules); err != nil {
		t.Fatal(err)
	}
	urls := make(map[string]string)
	for scheme, s := range map[string]server{
		"http": httpapi.NewServer(httpapi.New(e, nil), nil), "grpc": rlsapi.NewServer(envoy, nil),
		"redis": respapi.NewServer(respapi.New(e, &respapi.Options{Password: "p ss"}), nil),
	} {
		urls[scheme] = scheme + "://" + serve(t, s)
	}
	urls["redis"] = strings.Replace(urls["redis"], "redis://", "redis://default:p%20ss@", 1)
	t.Cleanup(func() { _ = store.Close() })
	return urls
}

const rule = `domain: headgate
descriptors: [{key: key, rate_limit: {unit: day, requests_per_unit: 1}}]
`

func serve(t *testing.T, s server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-ended); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// timeout bounds a wait on a busy machine.
const timeout = 30 * time.Second

// mustRun runs a load until it has measured enough calls.
func mustRun(t *testing.T, url string, opts *load.Options, enough func(r *load.Result) bool) *load.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	opts.Duration = time.Hour
	run, err := load.Start(ctx, url, opts)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	for ctx.Err() == nil && !enough(run.Now()) {
		time.Sleep(time.Millisecond)
	}
	cancel()
	return run.Wait()
}

func TestRunCountsCallsOfEachProtocol(t *testing.T) {
	t.Parallel()
	urls := startServers(t)
	for _, c := range []struct {
		door string
		opts load.Options
	}{
		{"http", load.Options{Policy: "one"}},
		{"http", load.Options{Limit: headgate.MustParseLimit("1/1h")}},
		{"grpc", load.Options{}},
		{"grpc", load.Options{Pipeline: 8, Keys: 1}},
		{"redis", load.Options{Limit: headgate.MustParseLimit("1/1h"), Pipeline: 16}},
		{"redis", load.Options{Policy: "one", Pipeline: 3}},
	} {
		c.opts.Connections = 3
		if c.opts.Keys == 0 {
			c.opts.Keys = 5
		}
		r := mustRun(t, urls[c.door], &c.opts, func(r *load.Result) bool { return r.Denied >= 10 })
		if r.Failed > 0 || r.Allowed > int64(c.opts.Keys) || r.Denied < 10 || r.Calls()%int64(max(1, c.opts.Pipeline)) != 0 {
			t.Errorf("%s %+v: %d allowed, %d denied, %d failed (%v); want at most one allowed for each key, and none failed",
				c.door, c.opts, r.Allowed, r.Denied, r.Failed, r.First)
		}
		if p50, most := r.Latency(50), r.Latency(100); p50 <= 0 || most < p50 || r.Took < most || r.PerSecond() <= 0 {
			t.Errorf("%s: p50 %v, most %v, in %v", c.door, p50, most, r.Took)
		}
	}
}

func TestStartReportsErrors(t *testing.T) {
	t.Parallel()
	urls := startServers(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := ln.Addr().String()
	_ = ln.Close()
	for _, c := range []struct {
		url  string
		opts load.Options
		want string
	}{
		{"127.0.0.1:8080", load.Options{}, "write http://"},
		{"ftp://127.0.0.1", load.Options{}, "must be http, https, grpc"},
		{"http://" + closed, load.Options{}, "refused"},
		{"redis://" + closed, load.Options{}, "refused"},
		{"grpc://" + closed, load.Options{}, "refused"},
		{urls["http"], load.Options{Policy: "two"}, "404 Not Found"},
		{urls["redis"], load.Options{Policy: "two"}, "NOPOLICY"},
		{strings.Replace(urls["redis"], "p%20ss", "x", 1), load.Options{}, "WRONGPASS"},
		{strings.Replace(urls["redis"], "default:p%20ss@", "", 1), load.Options{}, "NOAUTH"},
		{urls["redis"], load.Options{Limit: headgate.MustParseLimit("1/100ms")}, "whole seconds"},
		{urls["http"], load.Options{Pipeline: 2}, "leave pipeline out"},
		{urls["grpc"], load.Options{Policy: "one"}, "policy does not apply"},
		{urls["http"], load.Options{Connections: 10_001}, "1 to 10000"},
		{urls["http"], load.Options{Connections: -1}, "1 to 10000"},
		{urls["http"], load.Options{Duration: 1}, "1ms to 24h"},
	} {
		run, err := load.Start(t.Context(), c.url, &c.opts)
		if err == nil {
			run.Wait()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %q", c.url, c.opts, err, c.want)
		}
	}
}

// A server that closes connections and is unreachable for a while fails calls; the load
// goes on.
func TestRunCountsFailedCalls(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch calls.Add(1) % 10 {
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 7:
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		}
	}))
	defer s.Close()
	r := mustRun(t, s.URL, &load.Options{Connections: 2}, func(r *load.Result) bool { return r.Failed >= 2 && r.Allowed >= 5 })
	if r.Failed < 2 || r.Allowed < 5 || r.Denied > 0 || r.First == nil {
		t.Errorf("%+v, want calls that failed and others that did not", r)
	}
}

// A server of another protocol, or of none, causes neither a long wait nor a large
// allocation.
func TestStartRefusesInvalidReplies(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"\r\n", "+OK\r\n", "*5\r\n:0\r\n", "*1000000\r\n", "*2\r\n*1000000\r\n", "*1\r\n$99999999\r\n",
		strings.Repeat("*2\r\n", 64), strings.Repeat("x", 1<<20),
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(conn).ReadString('\n')
			_, _ = io.WriteString(conn, reply)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
		_, err = load.Start(t.Context(), fmt.Sprintf("redis://%s", ln.Addr()), &load.Options{Connections: 1, Duration: time.Millisecond})
		if err == nil {
			t.Errorf("%.20q is taken for an answer", reply)
		}
		_ = ln.Close()
		<-ended
	}
}

func TestRunEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	run, err := load.Start(ctx, startServers(t)["http"], &load.Options{Connections: 2, Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for run.Now().Calls() < 10 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if r := run.Wait(); r.Failed > 0 {
		t.Errorf("%d calls failed: %v", r.Failed, r.First)
	}
}

// slow is the latency of slow calls. Other calls are faster, even on a busy machine.
const slow = 300 * time.Millisecond

// slowServer is an HTTP server that delays some calls, selected by the number of the
// connection and of the call, both from 1.
func slowServer(t *testing.T, isSlow func(conn, call int64) bool) (url string) {
	t.Helper()
	var conns, calls atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if isSlow(r.Context().Value(connKey{}).(int64), calls.Add(1)) {
			time.Sleep(slow)
		}
	}))
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conns.Add(1))
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

type connKey struct{}

func TestLatencyPercentiles(t *testing.T) {
	t.Parallel()
	url := slowServer(t, func(_, call int64) bool { return call%20 == 0 })
	r := mustRun(t, url, &load.Options{Connections: 1}, func(r *load.Result) bool { return r.Calls() >= 60 })
	if p50, p90, p99, most := r.Latency(50), r.Latency(90), r.Latency(99), r.Latency(100); p50 >= slow || p90 >= slow || p99 < slow || most < p99 {
		t.Errorf("p50 %v, p90 %v, p99 %v, max %v; want one call in twenty to take %v, and the others less", p50, p90, p99, most, slow)
	}
}

// silentServer answers only the first call of each connection, which is not measured. It
// reports the second call.
func silentServer(t *testing.T, asked chan<- struct{}) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:0\r\n")
				_, _ = conn.Read(make([]byte, 4096))
				asked <- struct{}{}
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return ln.Addr().String()
}

func TestRunEndsWithoutResponses(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan struct{}, 2)
	run, err := load.Start(ctx, "redis://"+silentServer(t, asked), &load.Options{Connections: 2, Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	<-asked
	cancel()
	if r := run.Wait(); r.Failed > 0 {
		t.Errorf("%d failed (%v) want none", r.Failed, r.First)
	}
}

// A server that fails immediately does not get a flood of calls.
func TestRunPausesAfterFailures(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) > 2 { // the first two are not measured
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	r := mustRun(t, s.URL, &load.Options{Connections: 2}, func(r *load.Result) bool { return r.Failed >= 10 })
	if most := 2 * (1 + int64(r.Took/(20*time.Millisecond))); r.Failed < 10 || r.Failed > most {
		t.Errorf("%d calls failed in %v, want one in 20 ms on each of two connections", r.Failed, r.Took)
	}
}

// faulty is an Envoy rate limit service whose every tenth call fails.
type faulty struct {
	pb.UnimplementedRateLimitServiceServer
	calls atomic.Int64
}

func (f *faulty) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	if f.calls.Add(1)%10 == 9 {
		return nil, errors.New("faulty")
	}
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
}

// If one of the calls that were sent together fails, all of them count as failed.
func TestPipelinedCallsFailTogether(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	f := &faulty{}
	pb.RegisterRateLimitServiceServer(s, f)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() { s.Stop(); <-ended })
	r := mustRun(t, "grpc://"+ln.Addr().String(), &load.Options{Connections: 2, Pipeline: 4},
		func(r *load.Result) bool { return r.Failed >= 8 && r.Allowed > 0 })
	if r.Failed < 4 || 4*r.Failed < f.calls.Load() || r.Denied > 0 || r.Calls()%4 > 0 || r.First == nil || !strings.Contains(r.First.Error(), "faulty") {
		t.Errorf("of %d calls %d were allowed, %d denied, and %d failed (%v); want four failed for each that did",
			f.calls.Load(), r.Allowed, r.Denied, r.Failed, r.First)
	}
}

func TestLatencyOfAllConnections(t *testing.T) {
	t.Parallel()
	var slowCalls atomic.Int64
	url := slowServer(t, func(conn, _ int64) bool {
		if conn == 1 {
			slowCalls.Add(1)
		}
		return conn == 1
	})
	// The first call of a connection is not measured. When the third begins, the second
	// was measured.
	r := mustRun(t, url, &load.Options{Connections: 2}, func(r *load.Result) bool { return r.Calls() >= 20 && slowCalls.Load() >= 3 })
	if r.Latency(10) >= slow || r.Latency(100) < slow {
		t.Errorf("the fastest took %v, the slowest %v; want one slow connection and one fast one", r.Latency(10), r.Latency(100))
	}
}

package rlsapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// BenchmarkThroughput alternates between server processes; this process is the client.
const (
	serverEnv = "HEADGATE_TEST_SERVER" // which server this test binary is: bare, memory, or a Redis' address
	callers   = 64
	rounds    = 24
	roundTime = time.Second / 4
	tenants   = 100_000
)

const benchConfig = `
domain: bench
descriptors:
  - key: tenant
    rate_limit: {unit: hour, requests_per_unit: 1000000}
`

// serveForBenchmark serves until standard input ends, if this process was started as a
// server.
func serveForBenchmark() {
	role := os.Getenv(serverEnv)
	if role == "" {
		return
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if role == "bare" {
		s := grpc.NewServer()
		pb.RegisterRateLimitServiceServer(s, bare{})
		panic(s.Serve(ln))
	}
	defer runtime.KeepAlive(make([]byte, 32<<20)) // as headgate serve has it, so that garbage is collected less often
	var store headgate.Store = memstore.New(nil)
	if addr, ok := strings.CutPrefix(role, "redis:"); ok {
		if store, err = redisstore.Open("redis://"+addr, nil); err != nil {
			panic(err)
		}
		if store, err = fallback.New(store, nil); err != nil { // as headgate serve has it
			panic(err)
		}
	}
	e, err := engine.New(store, nil)
	if err != nil {
		panic(err)
	}
	config, err := envoyconfig.Parse([]envoyconfig.File{{Name: "bench.yaml", Content: []byte(benchConfig)}}, nil)
	if err != nil {
		panic(err)
	}
	h, err := rlsapi.New(e, nil)
	if err != nil {
		panic(err)
	}
	if err := h.Apply(config); err != nil {
		panic(err)
	}
	panic(rlsapi.NewServer(h, nil).Serve(ln))
}

// bare responds OK to every request.
type bare struct {
	pb.UnimplementedRateLimitServiceServer
}

func (bare) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
}

// BenchmarkThroughput compares the handler with a gRPC server that responds OK to every
// request: 64 callers with one request in flight each, one server at a time.
//
//	go test ./cmd/headgate/internal/rlsapi -run '^$' -bench Throughput
func BenchmarkThroughput(b *testing.B) {
	roles := []string{"bare", "memory", "redis:" + testserver.Redis(b).Addr()}
	rates, costs := make([][]float64, len(roles)), make([][]float64, len(roles))
	clients, pids := make([]pb.RateLimitServiceClient, len(roles)), make([]int, len(roles))
	for i, role := range roles {
		var addr string
		addr, pids[i] = startServer(b, role)
		clients[i] = dial(b, addr)
		load(b, clients[i], roundTime) // warm up
	}
	b.ResetTimer()
	for range b.N {
		for range rounds {
			for i := range roles {
				before := cpuTime(b, pids[i])
				rate := load(b, clients[i], roundTime)
				rates[i] = append(rates[i], rate)
				costs[i] = append(costs[i], (cpuTime(b, pids[i])-before).Seconds()*1e6/(rate*roundTime.Seconds()))
			}
		}
	}
	b.StopTimer()
	for i, role := range roles {
		b.Logf("%s: requests/s %.0f; µs of the server's CPU for each, median %.1f", role, rates[i], median(costs[i]))
	}
	b.ReportMetric(median(rates[0]), "bare-req/s")
	b.ReportMetric(100*medianRatio(rates[1], rates[0]), "%-memory")
	b.ReportMetric(100*medianRatio(rates[2], rates[0]), "%-redis")
	b.ReportMetric(0, "ns/op")
}

// medianRatio returns the median ratio of consecutive rounds.
func medianRatio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

// cpuTime returns the CPU time of a process in ticks of 10 ms.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// startServer starts this test binary as a server. It returns its address and process.
func startServer(b *testing.B, role string) (addr string, pid int) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	addr, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(addr), cmd.Process.Pid
}

func dial(t testing.TB, addr string) pb.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewRateLimitServiceClient(conn)
}

// load sends requests for a duration and returns the rate of responses per second.
func load(b *testing.B, client pb.RateLimitServiceClient, during time.Duration) float64 {
	b.Helper()
	var answered atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for caller := range callers {
		wg.Go(func() {
			for i := caller; time.Since(begin) < during; i += 7919 {
				resp, err := client.ShouldRateLimit(b.Context(), request("bench", "tenant", strconv.Itoa(i%tenants)))
				if err != nil || resp.GetOverallCode() != pb.RateLimitResponse_OK {
					b.Errorf("got %v, error %v", resp, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(answered.Load()) / time.Since(begin).Seconds()
}

// request returns a request with one descriptor of keys and values.
func request(domain string, keysAndValues ...string) *pb.RateLimitRequest {
	d := new(ratelimit.RateLimitDescriptor)
	for i := 0; i < len(keysAndValues); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: keysAndValues[i], Value: keysAndValues[i+1]})
	}
	return &pb.RateLimitRequest{Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{d}}
}

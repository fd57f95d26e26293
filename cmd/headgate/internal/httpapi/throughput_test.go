package httpapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/memstore"
)

// The comparison of BenchmarkThroughput: two server processes take turns, this process
// loads them.
const (
	serverEnv   = "HEADGATE_TEST_SERVER" // which server this test binary is: bare or ours
	connections = 64
	rounds      = 6
	roundTime   = time.Second
)

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
		panic(http.Serve(ln, http.HandlerFunc(bare)))
	}
	e, err := engine.New(memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	panic(httpapi.NewServer(httpapi.New(e, nil), nil).Serve(ln))
}

const bareAnswer = `{"allowed":true,"limit":1000000,"remaining":999999,"retry_after_ms":0,"reset_after_ms":1,"delay_ms":0,"never":false,"policy":"","denied_by":[],"degraded":false,"results":[{"policy":"","allowed":true,"limit":"1000000/s","capacity":1000000,"remaining":999999,"retry_after_ms":0,"reset_after_ms":1,"reset_at":"2026-11-23T17:00:00.000Z","denied":false,"denied_by":[]}]}`

// bare reads and writes the same bytes as a check, and does nothing else.
func bare(w http.ResponseWriter, r *http.Request) {
	if _, err := io.ReadAll(r.Body); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Ratelimit-Policy", `"default";q=1000000;w=1`)
	w.Header().Set("Ratelimit", `"default";r=999999;t=1`)
	_, _ = io.WriteString(w, bareAnswer)
}

// BenchmarkThroughput compares the API with a handler that only transfers the same bytes:
// 64 connections, each waiting for its response before the next request, one server at a
// time.
//
//	go test ./cmd/headgate/internal/httpapi -run '^$' -bench Throughput
func BenchmarkThroughput(b *testing.B) {
	var rates [2][]float64
	addrs := [2]string{startServer(b, "bare"), startServer(b, "ours")}
	for _, addr := range addrs {
		load(b, addr, roundTime/4) // warm up
	}
	b.ResetTimer()
	for range b.N {
		for range rounds {
			for i, addr := range addrs {
				rates[i] = append(rates[i], load(b, addr, roundTime))
			}
		}
	}
	b.StopTimer()
	b.Logf("bare, requests/s: %.0f", rates[0])
	b.Logf("ours, requests/s: %.0f", rates[1])
	bareRate, oursRate := median(rates[0]), median(rates[1])
	b.ReportMetric(bareRate, "bare-req/s")
	b.ReportMetric(oursRate, "ours-req/s")
	b.ReportMetric(100*oursRate/bareRate, "%-of-bare")
	b.ReportMetric(0, "ns/op")
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// startServer starts this test binary as a server and returns its address.
func startServer(b *testing.B, role string) string {
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
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return addr[:len(addr)-1]
}

// load keeps all connections busy for d and reports the requests answered per second.
func load(b *testing.B, addr string, d time.Duration) float64 {
	b.Helper()
	var stop atomic.Bool
	var answered atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range connections {
		wg.Go(func() {
			n, err := ask(addr, i, &stop)
			answered.Add(n)
			if err != nil {
				b.Error(err)
			}
		})
	}
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	wg.Wait()
	return float64(answered.Load()) / time.Since(begin).Seconds()
}

// ask sends checks on one connection, one after another, and counts the answers.
func ask(addr string, key int, stop *atomic.Bool) (n int64, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	body := fmt.Sprintf(`{"limit":"1000000/1s","key":"203.0.113.%d","cost":1}`, key)
	request := fmt.Appendf(nil, "POST /v1/check HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
	buf := make([]byte, 4096)
	for !stop.Load() {
		if _, err := conn.Write(request); err != nil {
			return n, err
		}
		if err := readAnswer(conn, buf); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// readAnswer reads one response with a Content-Length; any status but 200 is an error.
func readAnswer(conn net.Conn, buf []byte) error {
	got := 0
	for {
		n, err := conn.Read(buf[got:])
		if err != nil {
			return err
		}
		got += n
		head, body, found := bytes.Cut(buf[:got], []byte("\r\n\r\n"))
		if !found {
			continue
		}
		if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
			return fmt.Errorf("answer: %q", buf[:got])
		}
		_, length, _ := bytes.Cut(head, []byte("Content-Length: "))
		length, _, _ = bytes.Cut(length, []byte("\r\n"))
		want, err := strconv.Atoi(string(length))
		if err != nil {
			return fmt.Errorf("no Content-Length: %q", head)
		}
		if len(body) == want {
			return nil
		}
	}
}

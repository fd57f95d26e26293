package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

var drains = flag.Int("drains", 3, "number of shutdowns under load")

// TestShutdownUnderLoadFailsNoCall sends SIGTERM while clients call every API. A call
// fails if it was sent and not answered, or answered with an error. HTTP and gRPC clients
// go on until the listeners are closed. The Redis protocol cannot announce the end of a
// connection, so Redis clients stop at the signal, and have the drain delay to complete
// their calls.
func TestShutdownUnderLoadFailsNoCall(t *testing.T) {
	t.Parallel()
	rounds := *drains
	if testing.Short() {
		rounds = min(rounds, 1)
	}
	for round := range rounds {
		l := newCrowd(t)
		l.start()
		eventually(t, "calls over every API are answered, or one fails", func() bool {
			return l.failed.Load() > 0 || min(l.http.Load(), l.grpc.Load(), l.resp.Load()) >= 50
		})
		l.terminate()
		if l.failed.Load() > 0 {
			t.Fatalf("round %d: %d calls failed (%v), of %d over HTTP, %d over gRPC and %d of Redis clients",
				round+1, l.failed.Load(), l.first.Load(), l.http.Load(), l.grpc.Load(), l.resp.Load())
		}
	}
}

// crowd is a service and its clients.
type crowd struct {
	t       *testing.T
	cmd     *exec.Cmd
	addrs   map[string]string // by listener
	clients sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc

	signaled         chan struct{} // closed after SIGTERM was sent
	answered         chan struct{} // has an element after a call over HTTP or gRPC was answered
	stop             atomic.Bool
	http, grpc, resp atomic.Int64 // calls that were answered
	failed           atomic.Int64
	first            atomic.Value // the first failure
}

// newCrowd starts a service without clients.
func newCrowd(t *testing.T) *crowd {
	t.Helper()
	rules := t.TempDir()
	if err := os.WriteFile(filepath.Join(rules, "d.yaml"), []byte(envoyRule), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &crowd{t: t, signaled: make(chan struct{}), answered: make(chan struct{}, 1)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	t.Cleanup(l.cancel)
	p := launch(t, 4, "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--resp-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--drain-delay", "400ms", "--envoy-config", rules, "--log-denials", "0")
	l.cmd, l.addrs = p.cmd, p.addrs
	return l
}

const envoyRule = `domain: d
descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 5}}]
`

func (l *crowd) start() {
	for range 4 {
		l.clients.Go(l.callHTTP)
		l.clients.Go(l.callRESP)
	}
	conn, err := grpc.NewClient(l.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	for range 4 {
		l.clients.Go(func() { l.callGRPC(pb.NewRateLimitServiceClient(conn)) })
	}
}

// terminate sends SIGTERM, and waits until the service and all clients have ended.
func (l *crowd) terminate() {
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		l.t.Fatal(err)
	}
	close(l.signaled)
	if err := l.cmd.Wait(); err != nil {
		l.t.Errorf("the service ended with error %v", err)
	}
	l.stop.Store(true)
	l.cancel()
	l.clients.Wait()
}

func (l *crowd) fail(format string, args ...any) {
	if l.failed.Add(1) == 1 {
		l.first.Store(fmt.Sprintf(format, args...))
	}
}

func (l *crowd) callHTTP() {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for !l.stop.Load() {
		resp, err := client.Post("http://"+l.addrs["http"]+"/v1/check", "application/json", strings.NewReader(`{"limit":"5/1h","key":"k"}`)) //nolint:noctx // see above
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
			return // the listener is closed: nothing was sent
		}
		if err != nil {
			l.fail("HTTP: %v", err)
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
			l.fail("HTTP: %s, %v", resp.Status, err)
			return
		}
		l.http.Add(1)
		l.notify()
	}
}

func (l *crowd) callGRPC(client pb.RateLimitServiceClient) {
	request := &pb.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{
		{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}},
	}}
	for !l.stop.Load() {
		// With WaitForReady, a call that was not sent waits for a connection.
		_, err := client.ShouldRateLimit(l.ctx, request, grpc.WaitForReady(true))
		switch {
		case err != nil && l.ctx.Err() != nil:
			return
		case err != nil:
			l.fail("gRPC: %v", err)
			return
		}
		l.grpc.Add(1)
		l.notify()
	}
}

// notify lets one Redis client send its next call. Redis clients that did not wait would
// take the processor time of all others.
func (l *crowd) notify() {
	select {
	case l.answered <- struct{}{}:
	default:
	}
}

func (l *crowd) callRESP() {
	conn, err := net.Dial("tcp", l.addrs["resp"])
	if err != nil {
		l.fail("RESP: %v", err)
		return
	}
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for {
		select {
		case <-l.signaled:
			return
		case <-l.answered:
		}
		_, err := io.WriteString(conn, "CL.THROTTLE k 4 5 3600\r\n")
		for want := 6; err == nil && want > 0; want-- {
			if !lines.Scan() || strings.HasPrefix(lines.Text(), "-") {
				err = fmt.Errorf("%q (%v)", lines.Text(), lines.Err())
			}
		}
		if err != nil {
			l.fail("RESP: %v", err)
			return
		}
		l.resp.Add(1)
	}
}

package service_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// The receiver of the OpenTelemetry Collector accepts spans and metrics over both
// protocols. Its program has a module of its own, because it has many dependencies.
func TestOpenTelemetryCollector(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the receiver of the OpenTelemetry Collector")
	}
	binary := filepath.Join(t.TempDir(), "collector")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir, build.Env = "../../../../tools/collector", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tools/collector: %v\n%s", err, out)
	}
	addrs := map[string]string{"grpc": testserver.FreeAddr(t), "http/protobuf": testserver.FreeAddr(t)}
	received := new(testserver.Log)
	program := exec.Command(binary, addrs["grpc"], addrs["http/protobuf"])
	program.Stdout, program.Stderr = received, received
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill(); _ = program.Wait() })
	ids := make(map[string]string)
	for protocol, addr := range addrs {
		awaitPort(t, addr)
		s := startTraced(t, map[string]string{"otlp.endpoint": "http://" + addr, "otlp.protocol": protocol, "otlp.service_name": protocol})
		ids[protocol] = s.post("/v1/check", `{"policy":"login","key":"secret-key"}`)
		s.stop()
	}
	// The collector prints before it replies. Wait returns when all of it has been read.
	_ = program.Process.Kill()
	_ = program.Wait()
	lines := bytes.Split([]byte(received.String()), []byte("\n"))
	for protocol, id := range ids {
		for what, parts := range map[string][]string{
			"the span":    {`"traceId":"` + id + `"`, `"name":"POST /v1/check"`, `"kind":2`, `"key":"headgate.policy","value":{"stringValue":"login"}`, `"stringValue":"` + protocol + `"`},
			"the metrics": {`"name":"headgate_decisions_total"`, `"key":"policy","value":{"stringValue":"login"}`, `"stringValue":"` + protocol + `"`},
		} {
			if !containsAll(lines, parts) {
				t.Errorf("%s: the collector has not received %s with %v:\n%.2000s", protocol, what, parts, received)
			}
		}
	}
	if strings.Contains(received.String(), "secret-key") {
		t.Error("the collector has received a key")
	}
}

// containsAll reports whether a line contains all parts.
func containsAll(lines [][]byte, parts []string) bool {
	for _, line := range lines {
		n := 0
		for _, part := range parts {
			if bytes.Contains(line, []byte(part)) {
				n++
			}
		}
		if n == len(parts) {
			return true
		}
	}
	return false
}

// awaitPort waits until a program listens on an address.
func awaitPort(t *testing.T, addr string) {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

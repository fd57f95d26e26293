package testserver

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
)

//go:embed testdata/statsd
var statsdFiles embed.FS

// StatsdServer is a statsd server (github.com/statsd/statsd) that listens on one port of
// the loopback interface, over UDP and TCP. All methods may be called concurrently.
type StatsdServer struct {
	t       testing.TB
	process *process
	addr    string
}

// Statsd installs a server from the npm registry, starts it and waits until it listens.
// It ends with the test.
func Statsd(t testing.TB) *StatsdServer {
	t.Helper()
	s := &StatsdServer{t: t, process: newProcess(t, "node", "nodejs"), addr: loopback(freePort(t))}
	for _, name := range []string{"package.json", "package-lock.json", "backend.js"} {
		text, err := statsdFiles.ReadFile("testdata/statsd/" + name)
		if err != nil {
			t.Fatal(err)
		}
		s.write(name, string(text))
	}
	_, port, _ := net.SplitHostPort(s.addr)
	s.write("config.js", fmt.Sprintf(statsdConfig, port, port, freePort(t), s.process.path("backend.js")))
	install := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional")
	install.Dir = s.process.dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	s.process.args = []string{s.process.path("node_modules/statsd/stats.js"), s.process.path("config.js")}
	if err := s.process.run(s.ready); err != nil {
		t.Fatal(err)
	}
	return s
}

const statsdConfig = `{
  servers: [
    { server: './servers/udp', address: '127.0.0.1', port: %s },
    { server: './servers/tcp', address: '127.0.0.1', port: %s },
  ],
  mgmt_address: '127.0.0.1', mgmt_port: %d,
  backends: ['%s'],
  flushInterval: 100,
}
`

func (s *StatsdServer) write(name, text string) {
	if err := os.WriteFile(s.process.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *StatsdServer) ready() error {
	conn, err := net.Dial("tcp", s.addr)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// Addr returns the address of the server.
func (s *StatsdServer) Addr() string { return s.addr }

// Received returns the sums of all counters, and the values of all timers, that the
// server has flushed so far.
func (s *StatsdServer) Received() (counters map[string]float64, timers map[string][]float64) {
	text, err := os.ReadFile(s.process.path("output"))
	if err != nil {
		s.t.Fatal(err)
	}
	counters, timers = map[string]float64{}, map[string][]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var flushed struct {
			Counters map[string]float64
			Timers   map[string][]float64
		}
		if json.Unmarshal(lines.Bytes(), &flushed) != nil {
			continue // another line of the log, or one that is being written
		}
		for name, n := range flushed.Counters {
			counters[name] += n
		}
		for name, values := range flushed.Timers {
			timers[name] = append(timers[name], values...)
		}
	}
	return counters, timers
}

package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
)

// site contains all processes: the measured nginx, which has one server for each row,
// Headgate and the application.
type site struct {
	rows            []row
	version         string
	dir             string
	nginx, headgate *exec.Cmd
	all             []*exec.Cmd
	bare            *http.Server // a server in Go that responds to every request with 200
}

// policies is the configuration of Headgate: one limit for every request, which the
// load never reaches.
const policies = `
policies:
  all: { limits: ["100000000/1s"] }
routes:
  - match: { path: "/**" }
    policies: [all]
`

// front is the nginx configuration of all rows except the row with Headgate. The server
// of that row is configured by a file in docs/guides/proxies, which is appended.
const front = `
limit_req_zone $binary_remote_addr zone=all:10m rate=1000000r/s;
server {
    listen NONE;
    location / { proxy_pass http://APPLICATION; }
}
server {
    listen LIMITED;
    location / { limit_req zone=all burst=1000000 nodelay; proxy_pass http://APPLICATION; }
}
upstream bare { server BARE; keepalive 32; }
server {
    listen AUTH;
    location / { auth_request /ask; proxy_pass http://APPLICATION; }
    location = /ask {
        internal;
        proxy_pass http://bare;
        proxy_pass_request_headers off;
        proxy_pass_request_body off;
        proxy_set_header Content-Length "";
        proxy_set_header Connection "";
        proxy_http_version 1.1;
    }
}
`

const application = `
server {
    listen APPLICATION;
    default_type text/plain;
    keepalive_requests 1000000000;
    location / { return 200 "a small page\n"; }
}
`

const mainConfig = `daemon off;
master_process off;
pid DIR/NAME.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path DIR/body;
    proxy_temp_path DIR/proxy;
    fastcgi_temp_path DIR/fastcgi;
    uwsgi_temp_path DIR/uwsgi;
    scgi_temp_path DIR/scgi;
    include DIR/NAME.servers;
}
`

// open starts all processes. headgate is the path of the program, file is the path of
// the nginx configuration for the row with Headgate.
func open(headgate, file string) (s *site, err error) {
	auth, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s = &site{}
	if s.dir, err = os.MkdirTemp("", "headgate-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.version, err = versionOf("nginx"); err != nil {
		return s, err
	}
	addrs, err := server.FreeAddrs(7)
	if err != nil {
		return s, err
	}
	s.rows = []row{
		{"no limit", addrs[0]},
		{"limit_req", addrs[1]},
		{"auth_request, bare net/http", addrs[2]},
		{"auth_request, headgate", addrs[3]},
	}
	ports := strings.NewReplacer(
		"NONE", addrs[0], "LIMITED", addrs[1], "AUTH", addrs[2], "127.0.0.1:8000", addrs[3],
		"127.0.0.1:8080", addrs[4], "127.0.0.1:9000", addrs[5], "APPLICATION", addrs[5], "BARE", addrs[6],
		"100ms", "10s", "50ms", "10s", // longer timeouts than in the file, so that a busy machine causes no errors
	)
	if err := s.write("headgate.yaml", policies); err != nil {
		return s, err
	}
	s.headgate, err = s.start(headgate, addrs[4], "serve", "--http-addr", addrs[4], "--resp-addr", "off",
		"--config", filepath.Join(s.dir, "headgate.yaml"))
	if err != nil {
		return s, err
	}
	if _, err = s.startNginx("application", addrs[5], ports.Replace(application)); err != nil {
		return s, err
	}
	if err := s.listenBare(addrs[6]); err != nil {
		return s, err
	}
	s.nginx, err = s.startNginx("front", addrs[0], ports.Replace(front+string(auth)))
	return s, err
}

func versionOf(program string) (string, error) {
	text, err := exec.Command(program, "-v").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("running %s: %w; scripts/setup installs it", program, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(text), "nginx version: ")), nil
}

func (s *site) write(name, text string) error {
	return os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600)
}

// startNginx starts an nginx with the given configuration of servers and waits until it
// listens on addr.
func (s *site) startNginx(name, addr, servers string) (*exec.Cmd, error) {
	main := strings.NewReplacer("DIR", s.dir, "NAME", name).Replace(mainConfig)
	if os.Geteuid() == 0 {
		main = "user root;\n" + main
	}
	if err := errors.Join(s.write(name+".servers", servers), s.write(name+".conf", main)); err != nil {
		return nil, err
	}
	return s.start("nginx", addr, "-p", s.dir, "-c", filepath.Join(s.dir, name+".conf"), "-e", "stderr")
}

// start starts a program and waits until it listens.
func (s *site) start(program, addr string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(program, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.all = append(s.all, cmd)
	for range 200 {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return cmd, conn.Close()
		}
		time.Sleep(25 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return cmd, fmt.Errorf("%s does not listen on %s; its stderr: %s", program, addr, stderr.String())
}

// listenBare starts an HTTP server in this process that answers every request with 200.
// It measures the minimum cost of any auth_request service in Go.
func (s *site) listenBare(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.bare = &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.bare.Serve(ln) }() // Serve returns when the server is closed
	return nil
}

// close stops all processes and removes their directory.
func (s *site) close() error {
	if s.bare != nil {
		_ = s.bare.Close()
	}
	for _, cmd := range s.all {
		_ = cmd.Process.Kill() // returns an error only if the process has already exited
		_ = cmd.Wait()         // always returns an error, because the process was killed
	}
	return os.RemoveAll(s.dir)
}

// turn is the result of one row in one round.
type turn struct {
	rate            float64 // requests per second
	p50, p99        float64 // latency in µs
	nginx, headgate float64 // processor time per request, in µs
}

// turn runs wrk against the server of a row for turnTime.
func (s *site) turn(r row, l load, turnTime time.Duration) (t turn, err error) {
	nginx, headgate := bench.ProcessorTime(s.nginx.Process.Pid), bench.ProcessorTime(s.headgate.Process.Pid)
	text, err := exec.Command("wrk", "--latency", "-t", strconv.Itoa(l.threads), "-c", strconv.Itoa(l.conns),
		"-d", strconv.Itoa(int(turnTime/time.Second))+"s", "http://"+r.addr+"/").Output()
	if err != nil {
		return t, fmt.Errorf("running wrk: %w; scripts/setup installs it", err)
	}
	nginx, headgate = bench.ProcessorTime(s.nginx.Process.Pid)-nginx, bench.ProcessorTime(s.headgate.Process.Pid)-headgate
	requests, err := t.read(string(text))
	if err != nil {
		return t, fmt.Errorf("invalid output of wrk: %w: %s", err, text)
	}
	t.nginx, t.headgate = float64(nginx.Microseconds())/requests, float64(headgate.Microseconds())/requests
	return t, nil
}

// read parses text, the output of wrk, into t and returns the number of requests.
func (t *turn) read(text string) (requests float64, err error) {
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case len(f) == 2 && f[0] == "50%":
			t.p50, err = microseconds(f[1])
		case len(f) == 2 && f[0] == "99%":
			t.p99, err = microseconds(f[1])
		case len(f) == 2 && f[0] == "Requests/sec:":
			t.rate, err = strconv.ParseFloat(f[1], 64)
		case len(f) > 2 && f[1] == "requests":
			requests, err = strconv.ParseFloat(f[0], 64)
		case strings.HasPrefix(line, "  Non-2xx") || strings.HasPrefix(line, "  Socket errors"):
			err = errors.New("some requests failed or had a status other than 2xx")
		}
		if err != nil {
			return 0, err
		}
	}
	if requests == 0 || t.rate == 0 || t.p50 == 0 || t.p99 == 0 {
		return 0, errors.New("requests, rate, p50 or p99 is missing")
	}
	return requests, nil
}

func microseconds(text string) (float64, error) {
	d, err := time.ParseDuration(text)
	return float64(d) / float64(time.Microsecond), err
}

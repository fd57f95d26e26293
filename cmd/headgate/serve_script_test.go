package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// servingCommands are commands of scripts about a server, in addition to exec.
var servingCommands = map[string]func(*testscript.TestScript, bool, []string){
	"occupy":  occupy,
	"serve":   serve,
	"request": request,
	"begin":   begin,
	"finish":  finish,
	"signal":  sendSignal,
	"ended":   ended,
	"logs":    logsText,
	"link":    link,
}

type servingKey struct{}

// serving is the server of one script.
type serving struct {
	cmd  *exec.Cmd
	log  *logLines
	held net.Conn // the connection of begin
}

func setUpServing(env *testscript.Env) error {
	env.Values[servingKey{}] = &serving{}
	env.Setenv("HEADGATE_RESP_ADDR", "off") // the default port is one, and the scripts run in parallel
	env.Setenv("HEADGATE_GRPC_ADDR", "off")
	env.Setenv("HEADGATE_ADMIN_ADDR", "off")
	env.Setenv("GORACE", raceSettings)
	return nil
}

func servingOf(ts *testscript.TestScript) *serving { return ts.Value(servingKey{}).(*serving) }

// occupy takes a free port and sets OCCUPIED to its address.
func occupy(ts *testscript.TestScript, _ bool, _ []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { ln.Close() })
	ts.Setenv("OCCUPIED", ln.Addr().String())
}

// serve [flag…] starts headgate serve, waits until it listens, and sets ADDR, and
// RESPPORT if Redis clients have a port.
func serve(ts *testscript.TestScript, _ bool, args []string) {
	s := servingOf(ts)
	s.cmd = exec.Command(binary(ts), append([]string{"serve"}, args...)...)
	s.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{
		"HEADGATE_HTTP_ADDR", "HEADGATE_RESP_ADDR", "HEADGATE_GRPC_ADDR", "HEADGATE_ADMIN_ADDR", "HEADGATE_ADMIN_TOKEN", "GORACE", "HEADGATE_RESP_PASSWORD", "HEADGATE_STORE", "HEADGATE_ON_STORE_ERROR", "HEADGATE_CONFIG",
		"REDIS_HOST", "REDIS_PORT", "RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "SHADOW_MODE", "LIMIT_RESPONSE_HEADERS_ENABLED",
	} {
		s.cmd.Env = append(s.cmd.Env, name+"="+ts.Getenv(name))
	}
	stderr, err := s.cmd.StderrPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	ts.Defer(func() { _ = s.cmd.Process.Kill() })
	s.log = newLogLines(stderr)
	line := s.log.mustWait(ts, "try: curl")
	_, rest, _ := strings.Cut(line, "://")
	addr, _, _ := strings.Cut(rest, "/")
	ts.Setenv("ADDR", addr)
	for _, name := range []string{"admin", "metrics"} { // ADMIN and METRICS, if these listeners are open
		if s.log.has("listener=" + name + " address=127.0.0.1:") {
			_, rest, _ := strings.Cut(s.log.mustWait(ts, "listener="+name+" address=127.0.0.1:"), "address=")
			addr, _, _ := strings.Cut(rest, " ")
			ts.Setenv(strings.ToUpper(name), addr)
		}
	}
	if s.log.has("listener=resp address=127.0.0.1:") {
		_, rest, _ := strings.Cut(s.log.mustWait(ts, "listener=resp address=127.0.0.1:"), "address=127.0.0.1:")
		port, _, _ := strings.Cut(rest, " ")
		ts.Setenv("RESPPORT", port)
	}
}

// binary returns the path of headgate in the PATH of the script.
func binary(ts *testscript.TestScript) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, "headgate")); err == nil {
			return path
		}
	}
	ts.Fatalf("no headgate in PATH")
	return ""
}

// request method path [body [field…]] prints the response: status line, header, body.
func request(ts *testscript.TestScript, _ bool, args []string) {
	body := ""
	if len(args) > 2 {
		body = args[2]
	}
	req, err := http.NewRequest(args[0], "http://"+ts.Getenv("ADDR")+args[1], strings.NewReader(body))
	ts.Check(err)
	for _, field := range args[min(3, len(args)):] {
		name, value, _ := strings.Cut(field, ": ")
		req.Header.Add(name, value)
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	ts.Check(err)
	ts.Check(resp.Write(ts.Stdout()))
}

// begin path body length sends the beginning of a request whose body will have length
// bytes, and waits until it is being read.
func begin(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := net.Dial("tcp", ts.Getenv("ADDR"))
	ts.Check(err)
	ts.Defer(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %s\r\n\r\n", args[0], args[2])
	ts.Check(err)
	interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	_, err = io.ReadFull(conn, interim)
	ts.Check(err)
	_, err = io.WriteString(conn, args[1])
	ts.Check(err)
	servingOf(ts).held = conn
}

// finish rest sends the rest of the request that was begun and prints the answer; with !
// there must be none.
func finish(ts *testscript.TestScript, neg bool, args []string) {
	conn := servingOf(ts).held
	_, _ = io.WriteString(conn, args[0])
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if neg {
		if err == nil {
			ts.Fatalf("answered %s", resp.Status)
		}
		return
	}
	ts.Check(err)
	ts.Check(resp.Write(ts.Stdout()))
}

// signal NAME [text] sends a signal and waits until the log contains text.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	s := servingOf(ts)
	ts.Check(s.cmd.Process.Signal(map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}[args[0]]))
	if len(args) > 1 {
		s.log.mustWait(ts, args[1])
	}
}

// logs text… waits until the log contains each text.
func logsText(ts *testscript.TestScript, _ bool, args []string) {
	for _, text := range args {
		servingOf(ts).log.mustWait(ts, text)
	}
}

// link name target makes a symbolic link in one step, in the place of one that is there.
func link(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.Symlink(args[1], ts.MkAbs(args[0]+".new")))
	ts.Check(os.Rename(ts.MkAbs(args[0]+".new"), ts.MkAbs(args[0])))
}

// ended status waits until the server has ended, with this status or by this signal, and
// prints its log.
func ended(ts *testscript.TestScript, _ bool, args []string) {
	s := servingOf(ts)
	log := s.log.all()
	_ = s.cmd.Wait()
	_, err := io.WriteString(ts.Stderr(), log)
	ts.Check(err)
	got := strconv.Itoa(s.cmd.ProcessState.ExitCode())
	if status := s.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		got = status.Signal().String()
	}
	if got != args[0] {
		ts.Fatalf("the server ended with %s, want %s; its log:\n%s", got, args[0], log)
	}
}

// logLines are the lines that a process has written so far.
type logLines struct {
	mu    sync.Mutex
	more  sync.Cond
	lines []string
	ended bool
}

func newLogLines(r io.Reader) *logLines {
	l := &logLines{}
	l.more.L = &l.mu
	go func() {
		scanner := bufio.NewScanner(r)
		for scanner.Scan() {
			l.mu.Lock()
			l.lines = append(l.lines, scanner.Text())
			l.mu.Unlock()
			l.more.Broadcast()
		}
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
		l.more.Broadcast()
	}()
	return l
}

// mustWait waits for the first line that contains text and returns it.
func (l *logLines) mustWait(ts *testscript.TestScript, text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := time.Now().Add(20 * time.Second)
	defer time.AfterFunc(time.Until(late), l.more.Broadcast).Stop()
	for next := 0; ; {
		for ; next < len(l.lines); next++ {
			if strings.Contains(l.lines[next], text) {
				return l.lines[next]
			}
		}
		if l.ended || !time.Now().Before(late) {
			ts.Fatalf("the server ended, or 20 s passed, without the log line %q:\n%s", text, strings.Join(l.lines, "\n"))
		}
		l.more.Wait()
	}
}

// has reports whether a line contains text.
func (l *logLines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, text) })
}

// all returns the whole log after the process has closed it.
func (l *logLines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.ended {
		l.more.Wait()
	}
	return strings.Join(l.lines, "\n") + "\n"
}

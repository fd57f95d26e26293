package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/headgate/headgate/internal/testserver"
)

// TestDemoScripts runs the scripts of testdata/demo. Each has its own Redis, at
// 127.0.0.1:$PORT.
func TestDemoScripts(t *testing.T) {
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"demo": startDemo, "page": openPage, "left": left, "press": press,
		"checkfile": checkFile, "requestas": requestAs, "occupydefault": occupyDefault,
	}
	for name, command := range servingCommands {
		commands[name] = command
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/demo",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PORT", testserver.Redis(t).Port())
			env.Values[pageKey{}] = new(*bufio.Scanner)
			return setUpServing(env)
		},
		Cmds: commands,
	})
}

// demo [flag…] starts headgate demo, waits until it prints its address, and sets ADDR.
func startDemo(ts *testscript.TestScript, _ bool, args []string) {
	s := servingOf(ts)
	s.cmd = exec.Command(binary(ts), append([]string{"demo"}, args...)...)
	for _, name := range []string{"HEADGATE_HTTP_ADDR", "HEADGATE_STORE", "REDIS_HOST", "REDIS_PORT", "GORACE"} {
		s.cmd.Env = append(s.cmd.Env, name+"="+ts.Getenv(name))
	}
	stdout, err := s.cmd.StdoutPipe()
	ts.Check(err)
	s.cmd.Stderr = s.cmd.Stdout
	ts.Check(s.cmd.Start())
	ts.Defer(func() { _ = s.cmd.Process.Kill() })
	s.log = newLogLines(stdout)
	line := s.log.mustWait(ts, "Six limiters")
	_, rest, _ := strings.Cut(line, "http://")
	ts.Setenv("ADDR", strings.TrimSuffix(rest, "/"))
}

type pageKey struct{}

// page opens the event stream of the page, sets SESSION and KEY, and writes the code
// snippets of each algorithm: NAME.go, NAME.yaml, NAME.json (the body of the curl line).
func openPage(ts *testscript.TestScript, _ bool, _ []string) {
	resp, err := http.Get("http://" + ts.Getenv("ADDR") + "/events")
	ts.Check(err)
	ts.Defer(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	*ts.Value(pageKey{}).(**bufio.Scanner) = lines
	var state struct {
		Session  string
		Settings struct{ Key string }
		Code     map[string]struct{ Go, YAML, Curl string }
	}
	nextEvent(ts, lines, "state", &state)
	ts.Setenv("SESSION", state.Session)
	ts.Setenv("KEY", state.Settings.Key)
	for name, code := range state.Code {
		body := strings.TrimSuffix(strings.TrimPrefix(code.Curl, "curl -d '"), "' http://"+ts.Getenv("ADDR")+"/v1/check\n")
		for ext, text := range map[string]string{".go": code.Go, ".yaml": code.YAML, ".json": body} {
			ts.Check(os.WriteFile(ts.MkAbs(name+ext), []byte(text), 0o600))
		}
	}
}

// left ALGORITHM N waits until the page shows N remaining units.
func left(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	lines := *ts.Value(pageKey{}).(**bufio.Scanner)
	got := int64(-1)
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		var frame struct {
			Tracks []struct {
				Gates []struct{ Levels []struct{ Remaining int64 } }
			}
		}
		nextEvent(ts, lines, "frame", &frame)
		got = frame.Tracks[0].Gates[map[string]int{"token_bucket": 0, "fixed_window": 2}[args[0]]].Levels[0].Remaining
		if got == want {
			return
		}
	}
	ts.Fatalf("%s: got %d remaining units, want %d", args[0], got, want)
}

// press JSON posts an action of the page, with the session, and prints the response.
func press(ts *testscript.TestScript, _ bool, args []string) {
	body := fmt.Sprintf(`{"session":%q,%s`, ts.Getenv("SESSION"), strings.TrimPrefix(args[0], "{"))
	request(ts, false, []string{http.MethodPost, "/act", body})
}

func nextEvent(ts *testscript.TestScript, lines *bufio.Scanner, kind string, into any) {
	for lines.Scan() {
		if lines.Text() == "event: "+kind && lines.Scan() {
			ts.Check(json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), into))
			return
		}
	}
	ts.Fatalf("the event stream ended before an event %s", kind)
}

// checkfile FILE posts a file to /v1/check and prints the response.
func checkFile(ts *testscript.TestScript, _ bool, args []string) {
	request(ts, false, []string{http.MethodPost, "/v1/check", ts.ReadFile(args[0])})
}

// requestas host method path sends a request with another Host and prints the response.
func requestAs(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequest(args[1], "http://"+ts.Getenv("ADDR")+args[2], http.NoBody)
	ts.Check(err)
	req.Host, req.Close = args[0], true
	resp, err := http.DefaultTransport.RoundTrip(req)
	ts.Check(err)
	ts.Check(resp.Write(ts.Stdout()))
}

// occupydefault listens on the default port, unless it is in use already.
func occupyDefault(ts *testscript.TestScript, _ bool, _ []string) {
	if ln, err := net.Listen("tcp", defaultDemoAddr); err == nil {
		ts.Defer(func() { ln.Close() })
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		ts.Check(err)
	}
}

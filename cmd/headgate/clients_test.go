package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// clientProgram is a program in examples that checks limits of a running service.
type clientProgram struct {
	dir     string   // below examples
	command []string // in dir
	up      string   // output while the service runs
	down    string   // output while the service is unavailable
	denials int      // HTTP requests to a server that denies everything; 0 if not HTTP
}

// The outputs of the programs that check the policy api, that log in, and that send
// requests to a web application.
const (
	checksUp   = "allowed, 2 left\nallowed, 1 left\nallowed, 0 left\ndenied, Retry-After: <=1200\n"
	checksDown = "not decided: allowed\nnot decided: allowed\nnot decided: allowed\nnot decided: allowed\n"
	loginsUp   = "allowed, 1 left\nallowed, 0 left\ndenied by login_account\n"
	loginsDown = "not decided: denied\nnot decided: denied\nnot decided: denied\n"
	appUp      = "200 -\n200 -\n200 -\n429 <=1200\n"
	appDown    = "200 -\n200 -\n200 -\n200 -\n"
)

// The programs use the interpreters and packages of Debian, and node the packages of
// examples/node/package-lock.json. The program run.php loads RateLimit.php, api.php and
// database.php; run_app.py loads fastapi_app.py and flask_app.py; login.js
// and express.js load http.js.
var (
	phpPrograms = []clientProgram{
		{"php", []string{"/usr/bin/php", "phpredis.php"}, checksUp, checksDown, 0},
		{"php", []string{"/usr/bin/php", "predis.php"}, checksUp, checksDown, 0},
		{"php", []string{"/usr/bin/php", "guzzle.php"}, loginsUp, loginsDown, 3},
		{"php", []string{"/usr/bin/php", "laravel/run.php"}, appUp, appDown, 0},
	}
	pythonPrograms = []clientProgram{
		{"python", []string{"/usr/bin/python3", "check_resp.py"}, checksUp, checksDown, 0},
		{"python", []string{"/usr/bin/python3", "check_http.py"}, loginsUp, loginsDown, 3},
		{"python", []string{"/usr/bin/python3", "run_app.py", "fastapi_app"}, appUp, appDown, 4},
		{"python", []string{"/usr/bin/python3", "run_app.py", "flask_app"}, appUp, appDown, 0},
	}
	nodePrograms = []clientProgram{
		{"node", []string{"node", "ioredis.js"}, checksUp, checksDown, 0},
		{"node", []string{"node", "login.js"}, loginsUp, loginsDown, 3},
		{"node", []string{"node", "axios.js"}, checksUp, checksDown, 4},
		{"node", []string{"node", "express.js"}, appUp, appDown, 4},
	}
)

// The programs of Go are compiled once.
var goPrograms = []clientProgram{
	{".", []string{"./checkresp"}, checksUp, checksDown, 0},
	{".", []string{"./checkhttp"}, checksUp, checksDown, 4},
}

func TestGoExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a client library")
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "./checkresp", "./checkhttp")
	build.Dir = "../../examples"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testPrograms(t, goPrograms, dir)
}

// TestDotNetExample compiles examples/dotnet with Debian's Mono, and with declarations of
// the parts of .NET that Mono does not have. It does not run it: programs with HttpClient
// crash in Mono's thread pool from time to time.
func TestDotNetExample(t *testing.T) {
	if testing.Short() {
		t.Skip("Mono is installed for the long tests only")
	}
	t.Parallel()
	build := exec.Command("mcs", "-langversion:7.2", "-target:library", "-warnaserror", "-r:System.Net.Http.dll",
		"-out:"+filepath.Join(t.TempDir(), "client.dll"),
		"../../examples/dotnet/HeadgateClient.cs", "../../examples/dotnet/HeadgateLimiter.cs",
		"../../examples/dotnet/HeadgateLogin.cs", "testdata/dotnet/Declarations.cs")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestPHPExamples(t *testing.T) { testPrograms(t, phpPrograms, "../../examples") }

func TestPythonExamples(t *testing.T) { testPrograms(t, pythonPrograms, "../../examples") }

// TestNodeExamples installs the packages of the lock file in a copy of the folder.
func TestNodeExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads packages from the npm registry")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "node"), os.DirFS("../../examples/node")); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = filepath.Join(dir, "node")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	testPrograms(t, nodePrograms, dir)
}

// testPrograms runs each program four times: with a service that runs, with one that
// does not reply, with one that has stopped, and with a server that denies everything.
func testPrograms(t *testing.T, programs []clientProgram, root string) {
	t.Parallel()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		t.Run(strings.Join(p.command, " "), func(t *testing.T) {
			t.Parallel()
			service := launch(t, 2, "--config", "../../examples/clients.yaml",
				"--http-addr", "127.0.0.1:0", "--resp-addr", "127.0.0.1:0", "--grpc-addr", "off", "--admin-addr", "off")
			p.mustPrint(t, root, service.addrs, 60_000, p.up)
			kill(t, service, "STOP")
			p.mustPrint(t, root, service.addrs, 50, p.down)
			kill(t, service, "KILL")
			_ = service.cmd.Wait()
			p.mustPrint(t, root, service.addrs, 60_000, p.down)
			if p.denials > 0 {
				p.mustNotRetry(t, root)
			}
		})
	}
}

// kill sends a signal to the service.
func kill(t *testing.T, p *launched, signal string) {
	t.Helper()
	if out, err := exec.Command("kill", "-"+signal, fmt.Sprint(p.cmd.Process.Pid)).CombinedOutput(); err != nil {
		t.Fatalf("kill -%s: %v %s", signal, err, out)
	}
}

var retryAfterSeconds = regexp.MustCompile(`\b(1200|1[01]\d\d)\b`)

// run returns the output of the program; see outputOfClient.
func (p *clientProgram) run(t *testing.T, root string, addrs map[string]string, timeoutMS int) string {
	t.Helper()
	name := p.command[0]
	if strings.HasPrefix(name, "./") {
		name = filepath.Join(root, p.dir, name)
	}
	cmd := exec.Command(name, p.command[1:]...)
	cmd.Dir = filepath.Join(root, p.dir)
	return outputOfClient(t, cmd, addrs, timeoutMS)
}

// outputOfClient runs a client program of the service with the given addresses, and
// returns its output, with seconds up to 1200 replaced. Variables that cmd has already
// stay set.
func outputOfClient(t *testing.T, cmd *exec.Cmd, addrs map[string]string, timeoutMS int) string {
	t.Helper()
	output, _ := outputAndLogOfClient(t, cmd, addrs, timeoutMS)
	return output
}

// outputAndLogOfClient is like outputOfClient and also returns the standard error.
func outputAndLogOfClient(t *testing.T, cmd *exec.Cmd, addrs map[string]string, timeoutMS int) (output, log string) {
	t.Helper()
	host, port, _ := strings.Cut(addrs["resp"], ":")
	cmd.Env = append(append(os.Environ(), cmd.Env...), "PORT=0", "PYTHONDONTWRITEBYTECODE=1",
		"RATE_LIMIT_HTTP=http://"+addrs["http"], "RATE_LIMIT_RESP="+addrs["resp"],
		fmt.Sprintf("RATE_LIMIT_TIMEOUT_MS=%d", timeoutMS),
		"RATE_LIMIT_HOST="+host, "RATE_LIMIT_PORT="+port, fmt.Sprintf("RATE_LIMIT_TIMEOUT=%g", float64(timeoutMS)/1000))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, stderr.String())
	}
	t.Log(stderr.String())
	return retryAfterSeconds.ReplaceAllString(string(out), "<=1200"), stderr.String()
}

func (p *clientProgram) mustPrint(t *testing.T, root string, addrs map[string]string, timeoutMS int, want string) {
	t.Helper()
	if got := p.run(t, root, addrs, timeoutMS); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// mustNotRetry checks that the program sends no second request after a denial.
func (p *clientProgram) mustNotRetry(t *testing.T, root string) {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"allowed":false,"retry_after_ms":0,"denied_by":["api"]}`))
	}))
	defer server.Close()
	p.run(t, root, map[string]string{"http": strings.TrimPrefix(server.URL, "http://")}, 60_000)
	if got := requests.Load(); got != int64(p.denials) {
		t.Errorf("%d requests to a server that denies everything, want %d", got, p.denials)
	}
}

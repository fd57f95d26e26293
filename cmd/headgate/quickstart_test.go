package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// quickstart is a copy of the folder and of the proxy's file, with longer timeouts for a
// busy machine.
type quickstart struct {
	root  string
	tmp   string   // where it may write
	ports []string // of the proxy, and for HTTP and Redis clients
}

func newQuickstart(t *testing.T) *quickstart {
	t.Helper()
	root, err := os.MkdirTemp("", "hg") // a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	q := &quickstart{root: root, tmp: filepath.Join(root, "tmp")}
	for _, file := range []string{"quickstart/run", "quickstart/headgate.yaml", "quickstart/application.conf", "docs/guides/proxies/nginx-closed.conf"} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(root, file)
		patient := regexp.MustCompile(`timeout( +)\d+ms`).ReplaceAllString(string(text), "timeout${1}10s")
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied, []byte(patient), 0o700); err != nil { //nolint:gosec // one of them is run
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(q.tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, port, _ := net.SplitHostPort(testserver.FreeAddr(t))
		q.ports = append(q.ports, port)
	}
	return q
}

// command runs the script in its own process group, as a shell with a terminal does.
func (q *quickstart) command() *exec.Cmd {
	cmd := exec.Command(filepath.Join(q.root, "quickstart/run"))
	cmd.Env = append(os.Environ(), "TMPDIR="+q.tmp, "HEADGATE_STORE_BUDGET=10s", "PROXY_PORT="+q.ports[0], "HTTP_PORT="+q.ports[1], "RESP_PORT="+q.ports[2])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// leftNothing checks that no process of the group and no file is left.
func (q *quickstart) leftNothing(t *testing.T, group int) {
	t.Helper()
	eventually(t, "no process is left", func() bool { return syscall.Kill(-group, 0) == syscall.ESRCH })
	left, err := os.ReadDir(q.tmp)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

// The commands that the quick start prints have the documented output, and Ctrl-C ends
// all processes.
func TestQuickstartCommands(t *testing.T) {
	t.Parallel()
	q := newQuickstart(t)
	cmd := q.command()
	said, commands := startQuickstart(t, cmd)
	for i, want := range []string{
		`^200 200 200 200 200 429 $`,
		`(?s)^HTTP/1.1 429 .*RateLimit-Policy: "login";q=5;w=900\r\nRateLimit: "login";r=0;t=\d+\r\nRetry-After: \d+\r\n.*#quota-exceeded`,
		`^(200 ){20,24}(429 )+$`,
		`(?s)^HTTP/1.1 200 .*RateLimit: "api";r=19;.*hello from the application\n$`,
		`(?s)^HTTP/1.1 429 .*"allowed":false,"limit":5,"remaining":0,.*"policy":"login"`,
		`^\{"allowed":false,"limit":5,"remaining":0,.*"policy":"login"`,
		`^0\n5\n4\n-1\n12\n$`,
		`^$`,
		`(?s)^HTTP/1.1 200 .*RateLimit: "login";r=44;.*hello from the application\n$`,
		`(?m)^hg:.*login:127\.0\.0\.1$`,
	} {
		if i >= len(commands) {
			t.Fatalf("got %d printed commands, want more:\n%s", len(commands), said.text())
		}
		if i == 8 { // behind the change
			eventually(t, "the new policies hold", func() bool { return strings.Contains(said.text(), "configuration loaded") })
		}
		got, err := exec.Command("bash", "-c", commands[i]).Output()
		if err != nil || !regexp.MustCompile(want).Match(got) {
			t.Errorf("%s\ngot %s, error %v\nwant %s", commands[i], got, err, want)
		}
	}
	if len(commands) != 10 {
		t.Errorf("got %d printed commands, want 10", len(commands))
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("Ctrl-C: %v, want exit status 130:\n%s", err, said.text())
	}
	q.leftNothing(t, cmd.Process.Pid)
}

// startQuickstart runs the script, and returns the commands that it prints once it has
// printed all.
func startQuickstart(t *testing.T, cmd *exec.Cmd) (said *launched, commands []string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = read.Close() })
	said = &launched{}
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		said.write(lines.Text())
		if strings.HasPrefix(lines.Text(), "Ctrl-C ends") {
			go func() {
				for lines.Scan() {
					said.write(lines.Text())
				}
			}()
			return said, commands
		}
		if command, found := strings.CutPrefix(lines.Text(), "    "); found {
			commands = append(commands, command)
		}
	}
	t.Fatalf("the script ended: %s", said.text())
	return nil, nil
}

// SIGTERM ends the script and all of its servers, also before they have started, and when
// it is repeated.
func TestQuickstartEndsOnSIGTERM(t *testing.T) {
	t.Parallel()
	q := newQuickstart(t)
	cmd := q.command()
	said, _ := startQuickstart(t, cmd)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 143 {
		t.Errorf("SIGTERM: %v, want exit status 143:\n%s", err, said.text())
	}
	q.leftNothing(t, cmd.Process.Pid)
}

// The script reports why it cannot start, and ends the processes that it started.
func TestQuickstartReportsStartErrors(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // behind the parallel tests
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(q *quickstart, cmd *exec.Cmd)
		want   string
	}{
		{"a port is taken", func(_ *quickstart, cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "RESP_PORT="+port) }, "port " + port + " is already in use"},
		{"two on one port", func(q *quickstart, cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "RESP_PORT="+q.ports[1]) }, "address already in use"},
		{"a program is missing", func(_ *quickstart, cmd *exec.Cmd) {
			cmd.Path, cmd.Args = bash, append([]string{"bash"}, cmd.Args...)
			cmd.Env = append(cmd.Env, "PATH=/nowhere")
		}, "not installed: headgate redis-server redis-cli"},
		{"the configuration is wrong", func(q *quickstart, _ *exec.Cmd) {
			_ = os.WriteFile(filepath.Join(q.root, "quickstart/headgate.yaml"), []byte("polices: {}"), 0o600)
		}, "did you mean policies"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := newQuickstart(t)
			cmd := q.command()
			c.change(q, cmd)
			said, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(said), c.want) {
				t.Errorf("got %v, %q; want exit status 1 and %q", err, said, c.want)
			}
			q.leftNothing(t, cmd.Process.Pid)
		})
	}
}

// The flags and variables in compose.yaml exist.
func TestQuickstartComposeFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../quickstart/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`command: \[serve, (.*)\]`).FindStringSubmatch(string(text))
	variables := regexp.MustCompile(`(?m)^ +(HEADGATE_\w+): (\S+)`).FindAllStringSubmatch(string(text), -1)
	if command == nil || len(variables) != 4 {
		t.Fatalf("found the command %q and the variables %q, want one and four", command, variables)
	}
	flags := strings.ReplaceAll(strings.ReplaceAll(command[1], `"`, ""), "/etc/headgate/", "../../quickstart/")
	cmd := exec.Command("headgate", append([]string{"config", "print"}, strings.Split(flags, ", ")...)...)
	for _, v := range variables {
		cmd.Env = append(cmd.Env, fmt.Sprint(v[1], "=", strings.Trim(v[2], `"`)))
	}
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"redis://redis:6379", "172.30.77.10", "0.0.0.0:6380", "5/15m"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not effective:\n%s", want, got)
		}
	}
}

package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

const proxyGuide = "../../docs/guides/proxies"

var traefik = flag.String("traefik", "", "also run the transcript for Traefik, with this binary")

var (
	pageHeading     = regexp.MustCompile(`(?m)^#{2,3} `)
	proxyTranscript = regexp.MustCompile("(?s)<!-- run: TestProxyTranscripts -->\n```console\n(.*?)```")
)

// transcript is the commands and outputs below a heading of the guide.
type transcript struct{ heading, text string }

// proxyTranscripts returns the transcripts of the guide to proxies: the start, and one
// for each proxy.
func proxyTranscripts(t *testing.T) (all []transcript) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(proxyGuide, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range pageHeading.Split(string(page), -1) {
		heading, _, _ := strings.Cut(section, "\n")
		var text string
		for _, block := range proxyTranscript.FindAllStringSubmatch(section, -1) {
			text += block[1]
		}
		if text != "" {
			all = append(all, transcript{heading, text})
		}
	}
	if len(all) != 5 {
		t.Fatalf("%d sections have transcripts, want 5: the start and one for each of four proxies", len(all))
	}
	return all
}

// Each transcript of the guide to proxies prints what the page shows. A shell runs it
// after the commands that start the application and Headgate.
func TestProxyTranscripts(t *testing.T) {
	t.Parallel()
	all := proxyTranscripts(t)
	for _, proxy := range all[1:] {
		if proxy.heading == "Traefik" && *traefik == "" {
			continue // make test-long builds it
		}
		t.Run(proxy.heading, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			if proxy.heading == "nginx" {
				s.run(t, "nginx &") // Debian's package has started it
			}
			s.transcript(t, all[0].text)
			s.transcript(t, proxy.text)
		})
	}
}

// shell is a shell in a copy of the guide's folder, in which all ports and the paths
// below /etc and /var are those of the test, and timeouts are long enough for a busy
// machine.
type shell struct {
	own, guide *strings.Replacer // from the texts of the guide to those of the test, and back
	in         io.Writer
	out        *bufio.Reader
}

// shellCommands are programs that the transcripts use: sudo, nginx with the paths of the
// test, and Traefik.
var shellCommands = map[string]string{
	"sudo":    "exec \"$@\"",
	"nginx":   "exec /usr/sbin/nginx -p ROOT -c /etc/nginx/nginx.conf -e /var/log/nginx/error.log \"$@\"",
	"traefik": "exec TRAEFIK \"$@\"",
}

// debianNginx is the nginx.conf of the test. As in Debian's, it includes conf.d.
const debianNginx = `daemon off;
pid ROOT/nginx.pid;
events {}
http {
    access_log off;
    client_body_temp_path ROOT/body;
    proxy_temp_path ROOT/proxy;
    fastcgi_temp_path ROOT/fastcgi;
    uwsgi_temp_path ROOT/uwsgi;
    scgi_temp_path ROOT/scgi;
    include /etc/nginx/conf.d/*.conf;
}
`

func newShell(t *testing.T) *shell {
	t.Helper()
	root, err := os.MkdirTemp("", "headgate-proxies-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	own, guide := []string{"ROOT", root, "TRAEFIK", *traefik, "50ms", "5s", "100ms", "5s"}, []string{root, ""}
	for _, port := range []string{"8000", "8001", "8080", "9000"} {
		_, free, _ := net.SplitHostPort(testserver.FreeAddr(t))
		own, guide = append(own, port, free), append(guide, free, port)
	}
	for _, folder := range []string{"/etc/nginx/conf.d", "/etc/haproxy", "/etc/traefik", "/var/log/nginx", "/bin", "/guide"} {
		if err := os.MkdirAll(root+folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	own = append(own, "/etc/", root+"/etc/", "/var/log/", root+"/var/log/", "abns@headgate", "abns@"+filepath.Base(root))
	s := &shell{own: strings.NewReplacer(own...), guide: strings.NewReplacer(guide...)}
	main := debianNginx
	if os.Geteuid() == 0 {
		main = "user root;\n" + main // the folder is root's
	}
	s.write(t, root+"/etc/nginx/nginx.conf", main)
	for name, script := range shellCommands {
		s.write(t, root+"/bin/"+name, "#!/bin/sh\n"+script+"\n")
	}
	s.copyGuide(t, root+"/guide")
	s.start(t, root)
	return s
}

func (s *shell) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(s.own.Replace(text)), 0o700); err != nil { //nolint:gosec // some of them are run
		t.Fatal(err)
	}
}

// copyGuide copies the files of the guide. Caddy's admin endpoint has a fixed port.
func (s *shell) copyGuide(t *testing.T, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(proxyGuide, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(filepath.Base(file), "Caddyfile") {
			text = []byte(testserver.CaddyWithoutAdmin(string(text)))
		}
		s.write(t, filepath.Join(folder, filepath.Base(file)), string(text))
	}
}

// start starts the shell. All processes that it starts end with the test.
func (s *shell) start(t *testing.T, root string) {
	t.Helper()
	cmd := exec.Command("bash")
	cmd.Dir = root + "/guide"
	cmd.Env = append(os.Environ(), "PATH="+root+"/bin:"+os.Getenv("PATH")+":/usr/sbin", "HOME="+root, "HEADGATE_STORE_BUDGET=5s",
		"HEADGATE_HTTP_ADDR="+s.own.Replace("127.0.0.1:8080"), "HEADGATE_RESP_ADDR=off", "HEADGATE_GRPC_ADDR=off", "HEADGATE_ADMIN_ADDR=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	s.in, s.out = in, bufio.NewReader(out)
}

// transcript runs the commands of a transcript. A command with an output is repeated
// until it has this output, because servers start, reload and write logs asynchronously.
func (s *shell) transcript(t *testing.T, text string) {
	t.Helper()
	for command := range strings.SplitSeq(strings.TrimPrefix(text, "$ "), "\n$ ") {
		line, want, _ := strings.Cut(command, "\n")
		want = normalise(want)
		first := s.run(t, line)
		for got, late := first, time.Now().Add(time.Minute); want != "" && !matches(got, want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%s\nfirst output:\n%s\nlast output:\n%s\nwant:\n%s", line, first, got, want)
			}
			got = s.run(t, line)
		}
	}
}

const endOfOutput = "end of the output"

// run runs a command in the shell and returns its output.
func (s *shell) run(t *testing.T, command string) string {
	t.Helper()
	command = strings.ReplaceAll(command, "curl ", "curl -sS ")
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null 2>&1; printf '\\n%s\\n'\n", s.own.Replace(command), endOfOutput); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v after %s", command, err, text.String())
		}
		if line == endOfOutput+"\n" {
			return normalise(s.guide.Replace(text.String()))
		}
		text.WriteString(line)
	}
}

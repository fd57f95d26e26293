package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bench sends the token of the HTTP API, from a file or from the environment. Its output
// does not contain the token.
func TestBenchSendsToken(t *testing.T) {
	t.Parallel()
	const token = "b17e5b2c9d0f4a36"
	folder := t.TempDir()
	file := filepath.Join(folder, "token")
	for name, text := range map[string]string{"token": token + "\n", "wrong": "wrong" + token + "\n", "two-lines": "a\nb\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := startCommand(t, withToken(token, "serve", "--http-addr", "127.0.0.1:0", "--resp-addr", "off", "--grpc-addr", "off", "--admin-addr", "off"))
	p.mustListen(t, 1)
	for _, c := range []struct {
		token string // in the environment
		flags []string
		want  string
	}{
		{"", []string{"--http-token-file", file}, " 0 failed"},
		{token, nil, " 0 failed"},
		{"wrong" + token, []string{"--http-token-file", file}, " 0 failed"}, // the flag has precedence
		{"", nil, "401 Unauthorized"},
		{token, []string{"--http-token-file", filepath.Join(folder, "wrong")}, "401 Unauthorized"},
		{"", []string{"--http-token-file", filepath.Join(folder, "two-lines")}, "is not a token; the file must have one line"},
		{"", []string{"--http-token-file", filepath.Join(folder, "none")}, "no such file"},
		{"", []string{"--http-token", token}, "set HEADGATE_HTTP_TOKEN, or use --http-token-file"},
	} {
		args := append([]string{"bench", "http://" + p.addrs["http"], "--duration", "50ms", "--connections", "2"}, c.flags...)
		out, err := withToken(c.token, args...).CombinedOutput()
		if !strings.Contains(string(out), c.want) || (err == nil) != (c.want == " 0 failed") {
			t.Errorf("token %q, %v: %v: %s, want %q", c.token, c.flags, err, out, c.want)
		}
		if strings.Contains(string(out), token) {
			t.Errorf("token %q, %v: the output contains the token: %s", c.token, c.flags, out)
		}
	}
}

// withToken returns the command headgate with the token in the environment variable of
// the HTTP API.
func withToken(token string, args ...string) *exec.Cmd {
	cmd := exec.Command("headgate", args...)
	cmd.Env = append(os.Environ(), "HEADGATE_HTTP_TOKEN="+token)
	return cmd
}

package api

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestMain builds the service and adds it to PATH.
func TestMain(m *testing.M) {
	os.Exit(withService(m))
}

func withService(m *testing.M) int {
	dir, err := os.MkdirTemp("", "headgate")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir, "./cmd/headgate")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	if err := os.Setenv("PATH", dir+":"+os.Getenv("PATH")); err != nil {
		panic(err)
	}
	return m.Run()
}

// [snippet service]
var listening = regexp.MustCompile(`msg="listener started" listener=http address=(\S+)`)

// startHeadgate starts a service with an empty memory store on a free port. It returns
// the URL of the HTTP API. The service ends with the test.
func startHeadgate(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("headgate", "serve", "--http-addr", "127.0.0.1:0",
		"--resp-addr", "off", "--grpc-addr", "off", "--admin-addr", "off")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go func() {
				for lines.Scan() { // so that the service can always write its log
				}
			}()
			return "http://" + m[1]
		}
	}
	t.Fatal("headgate did not start")
	return ""
}

func TestService(t *testing.T) {
	url := startHeadgate(t) + "/v1/check"
	for i, want := range []int{200, 200, 200, 429} {
		resp, err := http.Post(url, "application/json", strings.NewReader(`{"limit":"3/1h","key":"ann"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("check %d: got %d, want %d", i+1, resp.StatusCode, want)
		}
	}
}

// [end service]

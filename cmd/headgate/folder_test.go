package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// checkAnswer is the part of an answer of the HTTP API that the test needs.
type checkAnswer struct {
	Allowed   bool  `json:"allowed"`
	Limit     int64 `json:"limit"`
	Remaining int64 `json:"remaining"`
}

// check calls the HTTP API at an address.
func check(addr, cost string) (answer checkAnswer, err error) {
	body := `{"limit":"1000000/8000h","key":"k","cost":` + cost + `}`
	r, err := http.Post("http://"+addr+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		return answer, err
	}
	defer r.Body.Close()
	return answer, json.NewDecoder(r.Body).Decode(&answer)
}

// TestStoppedServiceForgetsNothing sends SIGTERM while clients spend units. After the
// next start, every unit of a response is spent. A killed service reports that it was.
func TestStoppedServiceForgetsNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir() + "/state"
	flags := []string{
		"--store", "memory://" + folder, "--http-addr", "127.0.0.1:0", "--resp-addr", "off", "--grpc-addr", "off", "--admin-addr", "off",
	}
	rounds, spent := 3, int64(0)
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		p := launch(t, 1, flags...)
		allowed := spendUntilStopped(t, p, syscall.SIGTERM)
		if err := p.cmd.Wait(); err != nil {
			t.Fatalf("service: %v\n%s", err, p.text())
		}
		p = launch(t, 1, flags...)
		now, err := check(p.addrs["http"], "0")
		if err != nil || now.Limit-now.Remaining < spent+allowed {
			t.Errorf("after a restart: %d units are spent, %v; want at least %d", now.Limit-now.Remaining, err, spent+allowed)
		}
		if !strings.Contains(p.text(), `msg="state restored"`) {
			t.Errorf("the log has no line about the state that was restored:\n%s", p.text())
		}
		spent = now.Limit - now.Remaining
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	p := launch(t, 1, flags...)
	if !strings.Contains(p.text(), "state restored after an irregular stop") {
		t.Errorf("the log has no line about the process that was killed:\n%s", p.text())
	}
}

// TestRestartKeepsOverrides sets an override, and stops and starts the service. The audit
// is kept, too.
func TestRestartKeepsOverrides(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := filepath.Join(folder, "headgate.yaml")
	if err := os.WriteFile(config, []byte("policies:\n  api: {limits: [100/1h]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{
		"--store", "memory://" + folder + "/state", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--resp-addr", "off", "--grpc-addr", "off",
		"--config", config,
	}
	p := launch(t, 2, flags...)
	set := exec.Command("headgate", "override", "set", "api", "key:acme", "7/1h", "--reason", "launch", "--admin-addr", p.addrs["admin"])
	if out, err := set.CombinedOutput(); err != nil {
		t.Fatalf("override set: %v\n%s", err, out)
	}
	terminated(t, p)
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	p = launch(t, 2, flags...)
	r, err := http.Post("http://"+p.addrs["http"]+"/v1/check", "application/json", strings.NewReader(`{"policy":"api","key":"acme"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer checkAnswer
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Limit != 7 {
		t.Errorf("after a restart: got %+v, error %v want the limit 7 of the override", answer, err)
	}
	for _, path := range []string{"/admin/v1/overrides", "/admin/v1/audit"} {
		if _, body := p.operator(t, path); !strings.Contains(body, `"launch"`) {
			t.Errorf("%s after a restart: got %s want the reason", path, body)
		}
	}
}

// spendUntilStopped spends units with several clients, sends a signal, and returns how
// many were allowed.
func spendUntilStopped(t *testing.T, p *launched, signal os.Signal) int64 {
	t.Helper()
	var allowed, failed atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for failed.Load() == 0 {
				if answer, err := check(p.addrs["http"], "1"); err == nil && answer.Allowed {
					allowed.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	eventually(t, "units are spent", func() bool { return allowed.Load() > 200 || failed.Load() > 0 })
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	return allowed.Load()
}

package main

import (
	"encoding/json"
	"net/http"
	"os"
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

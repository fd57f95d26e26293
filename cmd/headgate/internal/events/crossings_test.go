package events_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/events"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

var crossings = flag.Int("crossings", 0, "keys that pass a threshold in TestEventsOfKilledProcesses; 0 means 400, or 8000 in the long form")

// processVariable is the environment variable that passes the task to a child process.
const processVariable = "HEADGATE_EVENTS_PROCESS"

const processes = 8

// task is what a child process does: one take of each key that it shares with three other
// processes, so that the last of the four passes the threshold.
type task struct {
	Redis, Reported, Progress string
	Process, Keys             int
}

// takes reports whether the process takes a unit of a key.
func (k *task) takes(key int) bool { return (key-k.Process+processes)%processes < 4 }

// run takes the units in order, and records its progress after each. A process that is
// started again repeats the take in which it was killed.
func (k *task) run(t *testing.T) {
	reported, err := os.OpenFile(k.Reported, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer reported.Close()
	progress, err := os.OpenFile(k.Progress, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer progress.Close()
	store, err := redisstore.Open("redis://"+k.Redis, &redisstore.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	reporter := events.New(&events.Options{
		Store: store, Log: slog.New(slog.NewJSONHandler(reported, nil)), LogEvents: true, Keys: events.PlainKeys,
		Hash: func(_, key string) string { return key },
	})
	defer reporter.Close(context.Background())
	e := newEngine(t, store, "5/366d", engine.PolicyOptions{}).WithObserver(observer{reporter, nil}, 0)
	var a engine.Answer
	for next := k.next(t); next < k.Keys; next++ {
		if k.takes(next) {
			check := []engine.Check{{Policy: "p", Key: fmt.Sprint(next), Cost: 1}}
			if err := e.Decide(t.Context(), headgate.Take, check, &a); err != nil {
				t.Fatal(err)
			}
			if err := reporter.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := progress.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(next+1)), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// next returns the key with which the process goes on.
func (k *task) next(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(k.Progress)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if len(text) != 8 {
		return 0
	}
	return int(binary.LittleEndian.Uint64(text))
}

// start starts the process of a task.
func (k *task) start(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.count=1", "-test.timeout=0")
	child.Env = append(os.Environ(), processVariable+"="+string(text))
	child.Stdout, child.Stderr = os.Stderr, os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	return child
}

// Eight processes pass a threshold of many keys, and are killed at random times. No
// event is reported twice, and none is lost except for a key whose take was the last of
// a killed process.
func TestEventsOfKilledProcesses(t *testing.T) {
	if text, ok := os.LookupEnv(processVariable); ok {
		var k task
		if err := json.Unmarshal([]byte(text), &k); err != nil {
			t.Fatal(err)
		}
		k.run(t)
		return
	}
	keys, kills := *crossings, 20
	switch {
	case keys > 0:
	case testing.Short():
		keys, kills = 400, 5
	default:
		keys = 8_000
	}
	server, folder, begin := testserver.Redis(t), t.TempDir(), time.Now()
	tasks, children := make([]*task, processes), make([]*exec.Cmd, processes)
	for i := range tasks {
		tasks[i] = &task{server.Addr(), filepath.Join(folder, "reported"), filepath.Join(folder, fmt.Sprint("progress", i)), i, keys}
		children[i] = tasks[i].start(t)
	}
	inFlight := make(map[int]bool) // keys of the last calls of killed processes
	for n := range kills {
		i := rand.IntN(processes)
		at := tasks[i].next(t) + rand.IntN(keys/kills+1)
		for deadline := time.Now().Add(time.Minute); tasks[i].next(t) < min(at, keys*(n+1)/(kills+1)) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		_ = children[i].Process.Kill()
		_ = children[i].Wait()
		inFlight[tasks[i].next(t)] = true
		children[i] = tasks[i].start(t)
	}
	for i, child := range children {
		if err := child.Wait(); err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
	}
	reported := reportedKeys(t, tasks[0].Reported)
	lost := 0
	for key := range keys {
		switch n := reported[fmt.Sprint(key)]; {
		case n > 1:
			t.Errorf("the event of key %d was reported %d times", key, n)
		case n == 0 && !inFlight[key]:
			t.Errorf("the event of key %d was lost", key)
		case n == 0:
			lost++
		}
	}
	t.Logf("%d keys passed the threshold in %d processes, %d kills: %d events reported once, %d lost in last calls, in %v",
		keys, processes, kills, len(reported), lost, time.Since(begin).Round(time.Millisecond))
}

// reportedKeys returns how often the first event of each key was reported. A take that a
// killed process has repeated can exhaust a key. This event is reported at most once,
// too.
func reportedKeys(t *testing.T, path string) map[string]int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	near, exhausted := make(map[string]int), make(map[string]int)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var line struct{ Msg, Key string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("got the line %q, error %v", lines.Text(), err)
		}
		switch line.Msg {
		case "key near limit":
			near[line.Key]++
		case "limit of key exhausted":
			if exhausted[line.Key]++; exhausted[line.Key] > 1 {
				t.Errorf("the event that key %s is exhausted was reported twice", line.Key)
			}
		default:
			t.Fatalf("got the line %q", lines.Text())
		}
	}
	return near
}

// Package crowd has many processes ask for one key at once, by the store's own clock, and counts what they were admitted: whatever
// span of time is looked at, it must hold no more than the algorithm guarantees. The count knows nothing of how decisions are made.
package crowd

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// Crowd is many processes that ask for one key. The zero value of each field but Algorithm and Limit is its default.
type Crowd struct {
	Algorithm headgate.Algorithm
	Limit     headgate.Limit
	// Processes is how many there are; 0 means 8.
	Processes int
	// Goroutines ask in each of them, all of them for the same key; 0 means 32.
	Goroutines int
	// For is how long they ask; 0 means 2 s.
	Duration time.Duration
	// Meanwhile runs in this process while the others ask; nil means nothing does.
	During func()
	// MayFail is set where Meanwhile does harm: operations may then end with an error. What they spent is not counted.
	AllowErrors bool
	// Lost is how many times over the whole capacity may have been forgotten, by the store's design.
	MaxLosses int64
}

// variable is how a process learns that it is one of the crowd.
const jobVariable = "HEADGATE_CROWD"

// Result is what the crowd was told.
type Result struct {
	Operations, Failed int64 // operations
	Admitted           int64 // units
}

// job is what a process of the crowd is to do.
type job struct {
	Address string
	Scope   string
	Begin   time.Time
	Out     string // the file that it reports in
}

// Run judges the store behind the address that serve gives, which each process opens anew with open. It starts the test t again,
// in processes of their own, in which only open is called: whatever t does before Run it does there too. t must not be run twice
// at once.
func (c Crowd) Run(t *testing.T, serve func(t *testing.T) (address string), open func(t *testing.T, address string) headgate.Store) Result {
	t.Helper()
	c = c.withDefaults()
	if text, ok := os.LookupEnv(jobVariable); ok {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			t.Fatal(err)
		}
		c.runProcess(t, j, open(t, j.Address))
		return Result{}
	}
	admissions, result := c.runProcesses(t, serve(t))
	if result.Failed > 0 && !c.AllowErrors {
		t.Errorf("%d of %d operations failed", result.Failed, result.Operations)
	}
	bound := model.UpperBoundOf(c.Algorithm, c.Limit)
	lost := c.MaxLosses * bound(0, 0)
	if err := Check(admissions, func(from, to int64) int64 { return lost + bound(from, to) }); err != nil {
		t.Error(err)
	}
	t.Logf("%s %v: %d processes × %d goroutines asked %d times in %v and were admitted %d units", c.Algorithm, c.Limit, c.Processes, c.Goroutines,
		result.Operations, c.Duration, result.Admitted)
	return result
}

func (c Crowd) withDefaults() Crowd {
	c.Processes = cmp.Or(c.Processes, 8)
	c.Goroutines = cmp.Or(c.Goroutines, 32)
	c.Duration = cmp.Or(c.Duration, 2*time.Second)
	return c
}

// lead starts the processes, waits for them and gathers what they report.
func (c Crowd) runProcesses(t *testing.T, address string) ([]Admission, Result) {
	t.Helper()
	folder := t.TempDir()
	begin := time.Now().Add(200*time.Millisecond + time.Duration(c.Processes)*100*time.Millisecond)
	var all sync.WaitGroup
	files := make([]string, c.Processes)
	for i := range files {
		files[i] = filepath.Join(folder, fmt.Sprint(i))
		child, err := childCommand(t, job{Address: address, Scope: fmt.Sprint(t.Name(), begin), Begin: begin, Out: files[i]})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("process %d of the crowd: %v\n%s", i, err, out)
			}
		})
	}
	if c.During != nil {
		time.Sleep(time.Until(begin))
		c.During()
	}
	all.Wait()
	return readReports(t, files)
}

// command is this test in a process of its own.
func childCommand(t *testing.T, j job) (*exec.Cmd, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(t.Name(), "/")
	for i := range parts {
		parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+strings.Join(parts, "/"), "-test.count=1")
	child.Env = append(os.Environ(), jobVariable+"="+string(text))
	return child, nil
}

// work asks, in one process, from the beginning on until the time is over.
func (c Crowd) runProcess(t *testing.T, j job, store headgate.Store) {
	b, err := store.Bind(headgate.Rule{Scope: j.Scope, Name: "crowd", Limit: c.Limit, Algorithm: c.Algorithm})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(j.Begin))
	var result Result
	logs := make([][]Admission, c.Goroutines)
	var all sync.WaitGroup
	for g := range logs {
		all.Go(func() { logs[g] = c.runGoroutine(b, j.Begin.Add(c.Duration), &result) })
	}
	all.Wait()
	if err := writeReport(j.Out, result, logs); err != nil {
		t.Fatal(err)
	}
}

// ask is one goroutine. It asks far more often than it is admitted, but leaves the machine to others after a denial.
func (c Crowd) runGoroutine(b headgate.Bound, until time.Time, result *Result) (log []Admission) {
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for time.Now().Before(until) {
		cost := 1 + r.Int64N(2)
		before := time.Now().UnixMicro()
		d, err := b.Apply(context.Background(), headgate.StoreClock, "key", headgate.Take, cost)
		after := time.Now().UnixMicro() + 1 // the rest of a µs
		atomic.AddInt64(&result.Operations, 1)
		if err != nil {
			atomic.AddInt64(&result.Failed, 1)
		} else if d.Allowed {
			log = append(log, Admission{before, after, cost})
			continue
		}
		time.Sleep(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
	}
	return log
}

// report writes what a process was told: numbers of 8 bytes, the result first.
func writeReport(file string, r Result, logs [][]Admission) error {
	numbers := []int64{r.Operations, r.Failed}
	for _, log := range logs {
		for _, a := range log {
			numbers = append(numbers, a.Before, a.After, a.Cost)
		}
	}
	text, err := binary.Append(nil, binary.LittleEndian, numbers)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func readReports(t *testing.T, files []string) (all []Admission, sum Result) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("a process of the crowd did not report: %v", err)
		}
		numbers := make([]int64, len(text)/8)
		if _, err := binary.Decode(text, binary.LittleEndian, numbers); err != nil || len(numbers) < 2 {
			t.Fatalf("a process of the crowd reported %d bytes: %v", len(text), err)
		}
		sum.Operations += numbers[0]
		sum.Failed += numbers[1]
		for i := 2; i+2 < len(numbers); i += 3 {
			a := Admission{numbers[i], numbers[i+1], numbers[i+2]}
			all = append(all, a)
			sum.Admitted += a.Cost
		}
	}
	return all, sum
}

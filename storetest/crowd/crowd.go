// Package crowd tests a store with many processes that use one key concurrently, at the
// time of the store's clock. It counts the admitted units: no time span may contain
// more of them than the algorithm guarantees. The count does not depend on how the
// store decides.
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

// Crowd is the configuration of a test with many processes that use one key. Algorithm
// and Limit are required. Any other field with the zero value has the default given in
// its comment.
type Crowd struct {
	Algorithm headgate.Algorithm
	Limit     headgate.Limit
	// Processes is the number of processes; 0 means 8.
	Processes int
	// Goroutines is the number of goroutines in each process; 0 means 32. All of them
	// use the same key.
	Goroutines int
	// Duration is how long the processes send requests; 0 means 2 s.
	Duration time.Duration
	// During is called in the process of the test while the child processes send
	// requests; nil means no call.
	During func()
	// AllowErrors allows operations to fail; set it if During disturbs the store. Units
	// that failed operations spent are not counted.
	AllowErrors bool
	// MaxLosses is how many times the store may, by design, lose the state of the key.
	// Each loss raises the maximum of admitted units by the whole capacity. 0 means
	// that no loss is allowed.
	MaxLosses int64
}

// jobVariable is the environment variable that passes the job to a child process.
const jobVariable = "HEADGATE_CROWD"

// Result is the outcome of a crowd test.
type Result struct {
	Operations, Failed int64 // number of operations
	Admitted           int64 // number of units
}

// job describes the task of a child process.
type job struct {
	Address string
	Scope   string
	Begin   time.Time
	Out     string // path of the file for the report
}

// Run tests the store at the address that serve returns. It starts the test t again in
// each child process, where Run opens the store with open and does not call serve. Code
// of t before the call of Run is also executed in every child process. Two executions
// of t must not overlap.
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
	t.Logf("%s %v: %d processes × %d goroutines sent %d requests in %v; %d units were admitted", c.Algorithm, c.Limit, c.Processes, c.Goroutines,
		result.Operations, c.Duration, result.Admitted)
	return result
}

func (c Crowd) withDefaults() Crowd {
	c.Processes = cmp.Or(c.Processes, 8)
	c.Goroutines = cmp.Or(c.Goroutines, 32)
	c.Duration = cmp.Or(c.Duration, 2*time.Second)
	return c
}

// runProcesses starts the child processes, waits until they end and reads their
// reports.
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
				t.Errorf("process %d: %v\n%s", i, err, out)
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

// childCommand returns the command that executes the test t in a child process with the
// job j.
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

// runProcess sends requests in a child process from job.Begin until Duration has
// passed, and writes the report.
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

// runGoroutine sends requests in one goroutine, far more than the limit can admit, and
// returns the admissions. After a denial it sleeps, so that other goroutines and
// processes can use the processor.
func (c Crowd) runGoroutine(b headgate.Bound, until time.Time, result *Result) (log []Admission) {
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for time.Now().Before(until) {
		cost := 1 + r.Int64N(2)
		before := time.Now().UnixMicro()
		d, err := b.Apply(context.Background(), headgate.StoreClock, "key", headgate.Take, cost)
		after := time.Now().UnixMicro() + 1 // round up to the next µs
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

// writeReport writes the report of a child process to a file of 8-byte numbers: first
// the counts of operations, then the admissions.
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
			t.Fatalf("read report of process: %v", err)
		}
		numbers := make([]int64, len(text)/8)
		if _, err := binary.Decode(text, binary.LittleEndian, numbers); err != nil || len(numbers) < 2 {
			t.Fatalf("invalid report of %d bytes: %v", len(text), err)
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

package lease_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/storetest/crowd"
	"github.com/headgate/headgate/storetest/model"
)

const (
	jobVariable = "HEADGATE_LEASE_JOB"
	processes   = 8
	callers     = 8
)

// job is the task of a child process. It is passed in the environment.
type job struct {
	URL       string // of the store
	Scope     string
	Algorithm headgate.Algorithm
	Limit     string
	Rate      float64 // requests per second of each of the callers
	ClockRate float64 // speed of the clock of the process
	TTL       time.Duration
	Out       string // file of the admissions; that of the counts ends with .counts
}

func (j job) limit() headgate.Limit { return headgate.MustParseLimit(j.Limit) }

func (j job) rule() headgate.Rule {
	return headgate.Rule{Scope: j.Scope, Name: "limit", Limit: j.limit(), Algorithm: j.Algorithm}
}

// group is a number of processes that use one key.
type group struct {
	t   *testing.T
	job job
	// weights are the shares of the processes of the load. If there are none, all
	// processes have the same load.
	weights  []float64
	children []*child
}

// child is one process of a group.
type child struct {
	cmd  *exec.Cmd
	stop io.Closer
	out  string
	dead bool // it was killed
}

// newGroup returns a group without processes. load is the number of requests per second
// of all of them.
func newGroup(t *testing.T, url string, a headgate.Algorithm, limit string, load float64) *group {
	t.Helper()
	return &group{t: t, job: job{
		URL: url, Scope: fmt.Sprint(t.Name(), time.Now()), Algorithm: a, Limit: limit, Rate: load / processes / callers, Out: t.TempDir(),
	}}
}

func (g *group) startAll() {
	g.t.Helper()
	for range processes {
		g.start()
	}
}

// start starts one process. The clocks of the processes run at 99 % to 101 % of the speed
// of the store's clock.
func (g *group) start() {
	g.t.Helper()
	i := len(g.children)
	own := g.job
	own.Out = filepath.Join(own.Out, fmt.Sprint(i))
	own.ClockRate = 0.99 + 0.02*float64(i%processes)/(processes-1)
	if g.weights != nil {
		own.Rate *= processes * g.weights[i]
	}
	text, err := json.Marshal(own)
	if err != nil {
		g.t.Fatal(err)
	}
	test, _, _ := strings.Cut(g.t.Name(), "/")
	cmd := exec.CommandContext(g.t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	stop, err := cmd.StdinPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.children = append(g.children, &child{cmd: cmd, stop: stop, out: own.Out})
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	c.dead = true
}

// killHolder waits until every process has a lease. Then it kills one of them and starts
// another one.
func (g *group) killHolder() {
	g.t.Helper()
	g.awaitLeases(time.Now())
	for {
		if c := g.children[rand.IntN(len(g.children))]; !c.dead {
			c.kill()
			break
		}
	}
	g.start()
}

// stopAll ends all processes and returns what they did.
func (g *group) stopAll() report {
	g.t.Helper()
	for _, c := range g.children {
		_ = c.stop.Close()
	}
	for _, c := range g.children {
		if c.dead {
			continue
		}
		if err := c.cmd.Wait(); err != nil {
			g.t.Errorf("a process failed: %v", err)
		}
	}
	return g.read()
}

// admission is one admitted request of a process.
type admission struct {
	crowd.Admission
	child  int
	leased bool
}

// counts are the totals of one process, or of all processes that were not killed.
type counts struct{ Asked, Decided, Allowed, Leased, Stranded, Calls int64 }

func (c *counts) add(d counts) {
	c.Asked, c.Decided, c.Allowed = c.Asked+d.Asked, c.Decided+d.Decided, c.Allowed+d.Allowed
	c.Leased, c.Stranded, c.Calls = c.Leased+d.Leased, c.Stranded+d.Stranded, c.Calls+d.Calls
}

// report is what the processes of a group have written.
type report struct {
	log    []admission
	counts counts // of the processes that have ended
}

func (r report) units() (sum int64) {
	for _, a := range r.log {
		sum += a.Cost
	}
	return sum
}

// leasedUnits returns the units that were admitted from memory.
func (r report) leasedUnits() (sum int64) {
	for _, a := range r.log {
		if a.leased {
			sum += a.Cost
		}
	}
	return sum
}

// read returns what the processes have written so far. A process may not have begun.
func (g *group) read() (r report) {
	g.t.Helper()
	for i, c := range g.children {
		text, err := os.ReadFile(c.out)
		if err != nil && !os.IsNotExist(err) {
			g.t.Fatal(err)
		}
		for ; len(text) >= 24; text = text[24:] {
			n := func(i int) int64 { return int64(binary.LittleEndian.Uint64(text[8*i:])) }
			r.log = append(r.log, admission{crowd.Admission{Before: n(0), After: n(1), Cost: 1}, i, n(2) != 0})
		}
		var own counts
		if text, err = os.ReadFile(c.out + ".counts"); err == nil && json.Unmarshal(text, &own) == nil {
			r.counts.add(own)
		}
	}
	return r
}

// await waits until ok returns true for what the processes have written.
func (g *group) await(what string, ok func(report) bool) {
	g.t.Helper()
	for begun := time.Now(); !ok(g.read()); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			g.t.Fatalf("waited two minutes for %s", what)
		}
	}
}

// awaitLeases waits until every running process has admitted a request from memory that
// was sent after the given time. It returns how long after that time they had done so.
func (g *group) awaitLeases(since time.Time) (took time.Duration) {
	g.t.Helper()
	g.await("decisions from memory", func(r report) bool {
		first := map[int]int64{}
		for _, a := range r.log {
			if a.leased && a.Before >= since.UnixMicro() && (first[a.child] == 0 || a.After < first[a.child]) {
				first[a.child] = a.After
			}
		}
		took = 0
		for i, c := range g.children {
			if first[i] == 0 && !c.dead {
				return false
			}
			took = max(took, time.UnixMicro(first[i]).Sub(since))
		}
		return true
	})
	return took.Round(time.Millisecond)
}

// awaitUnits waits until the processes have admitted n more units.
func (g *group) awaitUnits(n int64) {
	g.t.Helper()
	n += g.read().units()
	g.await("units", func(r report) bool { return r.units() >= n })
}

// awaitMostlyLeased waits until the processes have admitted the units of one second, and
// at least half of these from memory.
func (g *group) awaitMostlyLeased() {
	g.t.Helper()
	before := g.read()
	g.await("decisions from memory", func(r report) bool {
		units := r.units() - before.units()
		return units >= int64(perSecond(g.job.limit())) && 2*(r.leasedUnits()-before.leasedUnits()) >= units
	})
}

// check fails the test if a span has more units than the limit allows.
func (g *group) check(r report) {
	g.t.Helper()
	log := make([]crowd.Admission, len(r.log))
	for i, a := range r.log {
		log[i] = a.Admission
	}
	if err := crowd.Check(log, model.UpperBoundOf(g.job.Algorithm, g.job.limit())); err != nil {
		g.t.Errorf("%s: %v", g.job.Algorithm, err)
	}
}

func sleepUntil(at time.Time) {
	for time.Now().Before(at) {
		time.Sleep(time.Until(at))
	}
}

// runChild executes the job of a child process and returns true. In the parent process,
// it returns false.
func runChild(t *testing.T) bool {
	text, ok := os.LookupEnv(jobVariable)
	if !ok {
		return false
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	j.run(t)
	return true
}

// run sends requests until the parent process closes the standard input.
func (j job) run(t *testing.T) {
	out, err := os.Create(j.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	store, bound := j.open(t)
	running, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	own := make([]counts, callers)
	for i := range own {
		all.Go(func() { own[i] = j.call(running, bound, out) })
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	all.Wait()
	st := store.Stats()
	sum := counts{Stranded: st.Stranded, Calls: st.Calls}
	for _, c := range own {
		sum.add(c)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(sum)
	if err == nil {
		err = os.WriteFile(j.Out+".counts", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// memcachedScheme is that of the address of a memcached server in a job.
const memcachedScheme = "memcached://"

func (j job) openInner() (headgate.LeaseStore, error) {
	if server, ok := strings.CutPrefix(j.URL, memcachedScheme); ok {
		return memcachedstore.New(nil, server)
	}
	return redisstore.Open(j.URL, nil)
}

func (j job) open(t *testing.T) (*lease.Store, headgate.Bound) {
	inner, err := j.openInner()
	if err != nil {
		t.Fatal(err)
	}
	reliable, err := fallback.New(inner, &fallback.Options{Budget: time.Second, ProbeEvery: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	store, err := lease.New(reliable, nil)
	if err != nil {
		t.Fatal(err)
	}
	lease.SetClockRate(store, j.ClockRate)
	rule := j.rule()
	rule.Lease = headgate.LeaseSettings{Share: headgate.DefaultLeaseShare, TTL: j.TTL}
	return store, bind(t, store, rule)
}

// call sends requests of one caller. Each admission is written to the file immediately,
// because the process can be killed. A caller that is late does not make up for it.
func (j job) call(running context.Context, b headgate.Bound, out *os.File) (c counts) {
	next := time.Now()
	for running.Err() == nil {
		before := time.Now()
		c.Asked++
		d, err := b.Apply(ctx, headgate.StoreClock, "key", headgate.Take, 1)
		if err == nil {
			c.Decided++
		}
		if d.Leased {
			c.Leased++
		}
		if err == nil && d.Allowed {
			c.Allowed++
			record(out, before, d.Leased)
		}
		if next = next.Add(time.Duration(rand.ExpFloat64() / j.Rate * float64(time.Second))); time.Since(next) > 100*time.Millisecond {
			next = time.Now()
		}
		time.Sleep(time.Until(next))
	}
	return c
}

// record writes one admission.
func record(out *os.File, before time.Time, leased bool) {
	numbers := []int64{before.UnixMicro(), time.Now().UnixMicro() + 1, 0}
	if leased {
		numbers[2] = 1
	}
	text, _ := binary.Append(nil, binary.LittleEndian, numbers)
	_, _ = out.Write(text)
}

package lease_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/storetest/crowd"
	"github.com/headgate/headgate/storetest/model"
)

// job is the task of a child process. It is passed in the environment.
type job struct {
	Address   string
	Scope     string
	Algorithm headgate.Algorithm
	Limit     string
	Begin     time.Time
	End       time.Time
	Rate      float64 // requests per second of each of the callers; 0 means as many as possible
	Out       string  // file of the admissions
	Unleased  bool
}

const (
	jobVariable = "HEADGATE_LEASE_JOB"
	processes   = 8
	callers     = 8
)

// Eight processes use one key on Redis with three times the limit. Some of them are
// killed and replaced, and Redis is stopped for a while. No span has more units than the
// limit without leases.
func TestLeasesOnRedis(t *testing.T) {
	if runChild(t) {
		return
	}
	for a, limit := range map[headgate.Algorithm]string{
		headgate.TokenBucket: "4000/1s burst 1000", headgate.FixedWindow: "2000/500ms", headgate.SlidingLog: "4000/1s",
	} {
		if testing.Short() && a != headgate.TokenBucket {
			continue
		}
		l := headgate.MustParseLimit(limit)
		g := newGroup(t, a, limit, 5*time.Second)
		g.job.Rate = 3 * perSecond(l) / processes / callers
		g.startAll()
		g.disturb()
		o := g.wait()
		g.check(o)
		if o.units < int64(perSecond(l)) {
			t.Errorf("%s: %d units were allowed, want at least the units of one second", a, o.units)
		}
		t.Logf("%s %v for 5 s: %d units were allowed, %d requests were decided, %d of them in memory; %d processes were killed",
			a, l, o.units, o.decided, o.leased, kills)
	}
}

// TestThroughputOnRedis logs how many requests eight processes decide on one key, with
// and without leases.
func TestThroughputOnRedis(t *testing.T) {
	if runChild(t) {
		return
	}
	for _, unleased := range []bool{false, true} {
		g := newGroup(t, headgate.TokenBucket, "2000/1s", 2*time.Second)
		g.job.Unleased = unleased
		g.startAll()
		o := g.wait()
		g.check(o)
		t.Logf("without leases: %v: %d requests per second, and %d units in 2 s", unleased, o.decided/2, o.units)
	}
}

// kills is the number of processes that disturb kills.
const kills = 4

// group is a number of child processes.
type group struct {
	t       *testing.T
	server  *testserver.RedisServer
	job     job
	running []*exec.Cmd
	started int
}

func newGroup(t *testing.T, a headgate.Algorithm, limit string, lasts time.Duration) *group {
	t.Helper()
	server := testserver.Redis(t)
	begin := time.Now().Add(time.Second)
	return &group{t: t, server: server, job: job{
		Address: "redis://" + server.Addr(), Scope: fmt.Sprint(t.Name(), begin), Algorithm: a, Limit: limit, Begin: begin,
		End: begin.Add(lasts), Out: t.TempDir(),
	}}
}

// disturb kills processes in the last seconds, and stops Redis for a while.
func (g *group) disturb() {
	for i := range kills {
		sleepUntil(g.job.End.Add(time.Duration(i-kills) * time.Second))
		g.killOne()
		if i == 2 {
			g.server.Stop()
			sleepUntil(time.Now().Add(300 * time.Millisecond))
			g.server.Continue()
		}
	}
}

// check fails the test if a span has more units than the limit allows.
func (g *group) check(o report) {
	g.t.Helper()
	if err := crowd.Check(o.log, model.UpperBoundOf(g.job.Algorithm, headgate.MustParseLimit(g.job.Limit))); err != nil {
		g.t.Errorf("%s: %v", g.job.Algorithm, err)
	}
	if !g.job.Unleased && o.leased*2 < o.decided {
		g.t.Errorf("%s: %d of %d requests were decided in memory, want at least half", g.job.Algorithm, o.leased, o.decided)
	}
}

// report is what the processes of a group have written. The counts of requests do not
// include those of processes that were killed.
type report struct {
	log                    []crowd.Admission
	units, decided, leased int64
}

// add adds the file of one process: records of three numbers.
func (o *report) add(text []byte) {
	for ; len(text) >= 24; text = text[24:] {
		n := func(i int) int64 { return int64(binary.LittleEndian.Uint64(text[8*i:])) }
		if n(2) == 0 { // the last record
			o.decided, o.leased = o.decided+n(0), o.leased+n(1)
			continue
		}
		o.units += n(2)
		o.log = append(o.log, crowd.Admission{Before: n(0), After: n(1), Cost: n(2)})
	}
}

func (g *group) startAll() {
	for range processes {
		g.start()
	}
}

func (g *group) start() {
	g.t.Helper()
	own := g.job
	own.Out = filepath.Join(own.Out, fmt.Sprint(g.started))
	text, err := json.Marshal(own)
	if err != nil {
		g.t.Fatal(err)
	}
	child := exec.CommandContext(g.t.Context(), os.Args[0], "-test.run=^"+g.t.Name()+"$", "-test.count=1")
	child.Env = append(os.Environ(), jobVariable+"="+string(text))
	if err := child.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.started++
	g.running = append(g.running, child)
}

func sleepUntil(at time.Time) {
	for time.Now().Before(at) {
		time.Sleep(time.Until(at))
	}
}

// killOne kills a process and starts another one.
func (g *group) killOne() {
	i := rand.IntN(len(g.running))
	_ = g.running[i].Process.Kill()
	_ = g.running[i].Wait()
	g.running[i] = g.running[len(g.running)-1]
	g.running = g.running[:len(g.running)-1]
	g.start()
}

// wait waits for all processes and reads their files.
func (g *group) wait() (o report) {
	g.t.Helper()
	for _, child := range g.running {
		if err := child.Wait(); err != nil {
			g.t.Errorf("a process failed: %v", err)
		}
	}
	for i := range g.started {
		text, err := os.ReadFile(filepath.Join(g.job.Out, fmt.Sprint(i)))
		if err != nil && !os.IsNotExist(err) { // a process can be killed before it begins
			g.t.Fatal(err)
		}
		o.add(text)
	}
	return o
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

func (j job) run(t *testing.T) {
	out, err := os.Create(j.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	store, bound := j.open(t)
	defer store.Close()
	sleepUntil(j.Begin)
	var all sync.WaitGroup
	var decided, leased atomic.Int64
	for range callers {
		all.Go(func() {
			d, l := j.call(bound, out)
			decided.Add(d)
			leased.Add(l)
		})
	}
	all.Wait()
	record(out, decided.Load(), leased.Load(), 0)
}

func (j job) open(t *testing.T) (headgate.Store, headgate.Bound) {
	inner, err := redisstore.Open(j.Address, nil)
	if err != nil {
		t.Fatal(err)
	}
	rule := headgate.Rule{Scope: j.Scope, Name: "limit", Limit: headgate.MustParseLimit(j.Limit), Algorithm: j.Algorithm}
	if j.Unleased {
		return inner, bind(t, inner, rule)
	}
	reliable, err := fallback.New(inner, &fallback.Options{Budget: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	store, err := lease.New(reliable, nil)
	if err != nil {
		t.Fatal(err)
	}
	rule.Lease = headgate.LeaseSettings{Share: headgate.DefaultLeaseShare}
	return store, bind(t, store, rule)
}

// call sends requests until the end. Each admission is written to the file immediately,
// because the process can be killed.
func (j job) call(b headgate.Bound, out *os.File) (decided, leased int64) {
	next := time.Now()
	for {
		before := time.Now()
		if !before.Before(j.End) {
			return decided, leased
		}
		d, err := b.Apply(ctx, headgate.StoreClock, "key", headgate.Take, 1)
		if err == nil {
			decided++
		}
		if d.Leased {
			leased++
		}
		if err == nil && d.Allowed {
			record(out, before.UnixMicro(), time.Now().UnixMicro()+1, 1)
		}
		if j.Rate > 0 {
			next = next.Add(time.Duration(rand.ExpFloat64() / j.Rate * float64(time.Second)))
			time.Sleep(time.Until(next))
		}
	}
}

func record(out *os.File, numbers ...int64) {
	text, _ := binary.Append(nil, binary.LittleEndian, numbers)
	_, _ = out.Write(text)
}

package crowd

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
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
)

// Holders is the configuration of a test with many processes that hold units of one key,
// and that are killed while they hold them. Algorithm, Limit and Server are required. Any
// other field with the zero value has the default given in its comment.
type Holders struct {
	Algorithm headgate.Algorithm
	// Limit is the limit of the key. No unit may become available during the test, except
	// by the release of a hold.
	Limit headgate.Limit
	// Processes is the number of processes that run at a time; 0 means 8.
	Processes int
	// Goroutines is the number of goroutines in each process, each of which holds one
	// unit at a time; 0 means 8.
	Goroutines int
	// Kills is the number of processes that are killed with SIGKILL and replaced; 0 means
	// 16. In the end, all processes are killed.
	Kills int
	// TTL is the TTL of a hold; 0 means 300 ms.
	TTL time.Duration
	// Lease are the settings for leases. If they are set, further holds are opened in
	// memory before each kill.
	Lease headgate.LeaseSettings
	// Server returns the server at an address that serve has returned.
	Server func(address string) Server
}

// Server is the server of a store.
type Server interface {
	// AwaitDisconnected returns when the server has executed all commands of the
	// processes that were killed.
	AwaitDisconnected(t testing.TB)
	// Time returns the time of the store's clock.
	Time(t testing.TB) time.Time
}

// span is a time, in µs since the Unix epoch, in which a hold was certainly open.
type span struct{ from, to int64 }

// Run tests the store at the address that serve returns, as [Crowd.Run] does. It fails
// if more units than the limit were held at a time under holds that had not expired, or
// if units of processes that were killed are not available one TTL of the store's clock
// after the last kill. The clock of the store must be that of this machine.
func (c Holders) Run(t *testing.T, serve func(t *testing.T) (address string), open func(t *testing.T, address string) headgate.Store) {
	t.Helper()
	c = c.withDefaults()
	if text, ok := os.LookupEnv(jobVariable); ok {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			t.Fatal(err)
		}
		c.runProcess(t, j, open(t, j.Address))
		return
	}
	j := job{Address: serve(t), Scope: fmt.Sprint(t.Name(), time.Now()), Out: t.TempDir()}
	processes := c.runProcesses(t, j)
	spans, leased := readSpans(t, j.Out, processes)
	most := mostOpen(spans)
	if most > c.Limit.Capacity() {
		t.Errorf("%d units were held at a time, the limit is %v", most, c.Limit)
	}
	c.mustBeUnused(t, j, open)
	t.Logf("%s %v: %d processes were killed; %d holds, %d of them in memory, at most %d at a time; all units were available %v after the last kill",
		c.Algorithm, c.Limit, processes, len(spans), leased, most, c.longestTTL())
}

func (c Holders) withDefaults() Holders {
	c.Processes, c.Goroutines = cmp.Or(c.Processes, 8), cmp.Or(c.Goroutines, 8)
	c.Kills, c.TTL = cmp.Or(c.Kills, 16), cmp.Or(c.TTL, 300*time.Millisecond)
	return c
}

func (c Holders) limiter(t *testing.T, s headgate.Store, j job) *headgate.Limiter {
	t.Helper()
	l, err := headgate.New(s, headgate.Policy{
		Name: j.Scope, Algorithm: c.Algorithm, Limits: []headgate.Limit{c.Limit},
		Holds: headgate.HoldSettings{OnExpiry: headgate.ReleaseExpired}, Lease: c.Lease,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// runProcesses starts the processes, kills random ones while holds are open, and replaces
// them. It returns the number of processes, all of which it has killed.
func (c Holders) runProcesses(t *testing.T, j job) (started int) {
	t.Helper()
	var running []*exec.Cmd
	start := func() {
		own := j
		own.Out = filepath.Join(j.Out, fmt.Sprint(started))
		child, err := childCommand(t, own)
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		started++
		running = append(running, child)
	}
	kill := func(i int) {
		_ = running[i].Process.Kill()
		_ = running[i].Wait()
		running[i] = running[len(running)-1]
		running = running[:len(running)-1]
	}
	for range c.Processes {
		start()
	}
	for range c.Kills {
		c.awaitHolds(t, j.Out, started)
		kill(rand.IntN(len(running)))
		start()
	}
	c.awaitHolds(t, j.Out, started)
	for len(running) > 0 {
		kill(0)
	}
	return started
}

// awaitHolds waits until the processes have opened some further holds, also in memory if
// the limit is leased.
func (c Holders) awaitHolds(t *testing.T, folder string, processes int) {
	t.Helper()
	const further, furtherLeased = 10, 3
	opened, leased := countHolds(t, folder, processes)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		now, nowLeased := countHolds(t, folder, processes)
		if now >= opened+further && (!c.Lease.Enabled() || nowLeased >= leased+furtherLeased) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the processes opened %d further holds in a minute, %d of them in memory", now-opened, nowLeased-leased)
		}
	}
}

// countHolds returns how many holds were opened, and how many of them in memory.
func countHolds(t *testing.T, folder string, processes int) (opened, leased int) {
	t.Helper()
	spans, leased := readSpans(t, folder, processes)
	return len(spans), leased
}

// mustBeUnused waits until one TTL of the store's clock has passed since the last kill.
// All units must then be available.
func (c Holders) mustBeUnused(t *testing.T, j job, open func(t *testing.T, address string) headgate.Store) {
	t.Helper()
	server := c.Server(j.Address)
	server.AwaitDisconnected(t)
	for killed := server.Time(t); server.Time(t).Sub(killed) <= c.longestTTL(); {
		time.Sleep(time.Millisecond)
	}
	d, err := c.limiter(t, open(t, j.Address), j).PeekN(t.Context(), "key", 0)
	if err != nil || d.Remaining != d.Limit {
		t.Errorf("%v after the last kill: got %d of %d units available, error %v, want all", c.longestTTL(), d.Remaining, d.Limit, err)
	}
}

// longestTTL returns how long the units of a killed process may be held. Slots on lease
// are held for the longest TTL of a hold, which the clock of the process may measure 2
// % slower, and for the TTL of the lease.
func (c Holders) longestTTL() time.Duration {
	if !c.Lease.Enabled() {
		return c.TTL
	}
	return c.TTL + c.TTL/50 + c.Lease.TTL
}

// runProcess holds units in a child process until the process is killed.
func (c Holders) runProcess(t *testing.T, j job, s headgate.Store) {
	out, err := os.OpenFile(j.Out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	l := c.limiter(t, s, j)
	var holds atomic.Int64
	var all sync.WaitGroup
	for range c.Goroutines {
		all.Go(func() {
			for err := error(nil); err == nil; {
				err = c.holdOnce(t.Context(), l, holds.Add(1), out)
			}
		})
	}
	all.Wait()
}

// holdOnce holds a unit for a random time of up to twice the TTL, and extends the hold
// or lets it expire. Times are recorded so that the hold was certainly open between them.
func (c Holders) holdOnce(ctx context.Context, l *headgate.Limiter, number int64, out *os.File) error {
	before := time.Now()
	h, err := l.Hold(ctx, "key", 1, c.TTL)
	if err != nil || !h.OK() {
		time.Sleep(rand.N(10 * time.Millisecond))
		return nil
	}
	if h.Decision().Leased {
		number |= leasedNumber
	}
	from, to := time.Now(), before.Add(c.TTL)
	if err := writeSpan(out, number, from, to); err != nil {
		return err
	}
	for end := from.Add(rand.N(2 * c.TTL)); rand.IntN(3) > 0; {
		time.Sleep(min(time.Until(end), c.TTL/2))
		if !time.Now().Before(end) {
			break
		}
		before = time.Now()
		if _, err := h.Extend(ctx, c.TTL); err != nil {
			return nil
		}
		if to = certainlyUntil(before, c.TTL, h.ExpiresAt()); writeSpan(out, number, from, to) != nil {
			return errors.New("the file of the report cannot be written")
		}
	}
	if now := time.Now(); now.Before(to) {
		if err := writeSpan(out, number, from, now); err != nil {
			return err
		}
	}
	_, _ = h.Cancel(ctx)
	return nil
}

// certainlyUntil returns until when a hold is certainly open that was extended by ttl
// after the time before. A store decides after that time, so its deadline is not earlier
// than ttl later, unless the hold is in memory: if the process could not extend the slots
// that it has from the store, the hold gets the deadline of these slots.
func certainlyUntil(before time.Time, ttl time.Duration, deadline time.Time) time.Time {
	if until := before.Add(ttl); until.Before(deadline) {
		return until
	}
	return deadline
}

// spanBytes is the length of a span in a file: the number of the hold and two instants. A
// later span of the same hold takes the place of an earlier one.
const spanBytes = 24

// leasedNumber is set in the number of a hold that was opened in memory.
const leasedNumber = 1 << 62

func writeSpan(out *os.File, number int64, from, to time.Time) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(number))
	b = binary.LittleEndian.AppendUint64(b, uint64(from.UnixMicro()+1))
	_, err := out.Write(binary.LittleEndian.AppendUint64(b, uint64(to.UnixMicro())))
	return err
}

// readSpans reads the spans of all processes, and returns how many of their holds were
// opened in memory. A process may not have written any.
func readSpans(t *testing.T, folder string, processes int) (all []span, leased int) {
	t.Helper()
	for i := range processes {
		text, err := os.ReadFile(filepath.Join(folder, fmt.Sprint(i)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		last := map[uint64]span{}
		for ; len(text) >= spanBytes; text = text[spanBytes:] {
			number := binary.LittleEndian.Uint64(text)
			last[number] = span{int64(binary.LittleEndian.Uint64(text[8:])), int64(binary.LittleEndian.Uint64(text[16:]))}
		}
		for number, s := range last {
			if all = append(all, s); number&leasedNumber != 0 {
				leased++
			}
		}
	}
	return all, leased
}

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
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// Restarts is the configuration of a test with a process that keeps its state in a
// folder, and that is ended and started again many times while it decides. Ends is
// required. Any other field with the zero value has the default given in its comment.
type Restarts struct {
	// Ends is the number of times that the process is ended.
	Ends int
	// Regular ends the process with SIGTERM, which closes the store, and not with
	// SIGKILL.
	Regular bool
	// Interval is the sync interval of the store, for the report.
	Interval time.Duration
	// Goroutines is the number of goroutines; 0 means 4.
	Goroutines int
}

// Folder is a store that saves its state in a folder.
type Folder struct {
	Store headgate.Store
	// LastSync returns an instant so that all decisions that were returned before are on
	// the disk.
	LastSync func() time.Time
}

// restartLimits are the limits of the test. Practically no unit becomes available during
// the test.
var restartLimits = []headgate.Policy{
	{Name: "bucket", Algorithm: headgate.TokenBucket, Limits: []headgate.Limit{headgate.MustParseLimit("1/3000s burst 1000000")}},
	{Name: "window", Algorithm: headgate.FixedWindow, Limits: []headgate.Limit{headgate.MustParseLimit("1000000000/8000h")}},
	{Name: "log", Algorithm: headgate.SlidingLog, Limits: []headgate.Limit{headgate.MustParseLimit("100000000/8000h")}},
}

// syncRecord is the index of a record of a sync in the file of a process; all others are
// indexes of restartLimits.
const syncRecord = -1

// restartRecord is an admission, or a sync.
type restartRecord struct{ index, at int64 }

// Run runs the test on stores that open returns for a folder. It starts the test t
// again in child processes, as [Crowd.Run] does. After each end it compares the units
// that are spent with the admissions that the process has recorded. It fails if units
// are forgotten that were admitted before the last sync that the process has seen, or,
// after a regular end, if any is.
func (c Restarts) Run(t *testing.T, open func(t *testing.T, folder string) Folder) {
	t.Helper()
	c.Goroutines = cmp.Or(c.Goroutines, 4)
	if text, ok := os.LookupEnv(jobVariable); ok {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			t.Fatal(err)
		}
		c.runProcess(t, j, open(t, j.Address))
		return
	}
	sums := restartSums{admitted: make([]int64, len(restartLimits))}
	folder, reports := t.TempDir(), t.TempDir()
	for i := range c.Ends {
		j := job{Address: folder, Out: filepath.Join(reports, fmt.Sprint(i))}
		c.endProcess(t, j)
		s := open(t, folder)
		sums.check(t, s.Store, readRecords(t, j.Out), c.Interval)
		if err := s.Store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if c.Regular && sums.forgotten > 0 {
		t.Errorf("%d units were forgotten in %d regular ends; want none", sums.forgotten, c.Ends)
	}
	t.Logf("%d ends, %d units admitted, %d forgotten; at most %d in one end, when %d had been admitted since the last sync, and %d within the sync interval; %d ends forgot more than was admitted within the interval",
		c.Ends, sums.total, sums.forgotten, sums.most, sums.mostSince, sums.mostWithin, sums.exceeded)
}

// endProcess starts the process, and ends it at a random moment after its first sync with
// decisions.
func (c Restarts) endProcess(t *testing.T, j job) {
	t.Helper()
	child, err := childCommand(t, j)
	if err != nil {
		t.Fatal(err)
	}
	var out lockedBuffer
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(rand.N(250 * time.Millisecond))
	for deadline := time.Now().Add(time.Minute); !hasSynced(t, j.Out) || time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = child.Process.Kill()
			t.Fatalf("no sync in a minute: %s", out.String())
		}
	}
	if !c.Regular {
		_ = child.Process.Kill()
		_ = child.Wait()
		return
	}
	if err := errors.Join(child.Process.Signal(syscall.SIGTERM), child.Wait()); err != nil {
		t.Fatalf("process after SIGTERM: %v\n%s", err, out.String())
	}
}

// hasSynced reports whether a process has recorded admissions and then a sync.
func hasSynced(t *testing.T, file string) bool {
	t.Helper()
	admitted := false
	for _, r := range readRecords(t, file) {
		if r.index == syncRecord && admitted {
			return true
		}
		admitted = admitted || r.index != syncRecord
	}
	return false
}

// restartSums are the sums of all ends so far.
type restartSums struct {
	admitted                    []int64 // units that must be spent, by limit
	total, forgotten            int64
	most, mostSince, mostWithin int64
	exceeded                    int
}

// check compares the units that are spent with the records of the process that has ended.
func (s *restartSums) check(t *testing.T, store headgate.Store, records []restartRecord, interval time.Duration) {
	t.Helper()
	since, within := lostAtMost(records, interval)
	for i, p := range restartLimits {
		for _, r := range records {
			if r.index == int64(i) {
				s.admitted[i]++
				s.total++
			}
		}
		l, err := headgate.New(store, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.PeekN(t.Context(), "key", 0)
		if err != nil {
			t.Fatal(err)
		}
		spent := d.Limit - d.Remaining
		forgotten := max(0, s.admitted[i]-spent)
		s.forgotten += forgotten
		if forgotten > s.most {
			s.most, s.mostSince, s.mostWithin = forgotten, since[i], within[i]
		}
		if forgotten > within[i] {
			s.exceeded++
		}
		if forgotten > since[i] {
			t.Errorf("%s: %d units were forgotten; %d were admitted after the last sync", p.Name, forgotten, since[i])
		}
		s.admitted[i] = spent // also units of decisions that were not recorded
	}
}

// lostAtMost returns how many units of each limit were admitted after the last sync, and
// within the sync interval before the last record.
func lostAtMost(records []restartRecord, interval time.Duration) (since, within []int64) {
	since, within = make([]int64, len(restartLimits)), make([]int64, len(restartLimits))
	synced, last := int64(0), int64(0)
	for _, r := range records {
		if last = max(last, r.at); r.index == syncRecord {
			last, synced = max(last, r.at), max(synced, r.at)
		}
	}
	for _, r := range records {
		if r.index == syncRecord {
			continue
		}
		if r.at > synced {
			since[r.index]++
		}
		if r.at > last-interval.Nanoseconds() {
			within[r.index]++
		}
	}
	return since, within
}

// runProcess takes units until the process is ended, and records each admission after it
// was returned.
func (c Restarts) runProcess(t *testing.T, j job, s Folder) {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	out, err := os.OpenFile(j.Out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var all sync.WaitGroup
	for g := range c.Goroutines {
		all.Go(func() {
			if err := takeUntil(ctx, s.Store, g, out); err != nil {
				t.Error(err)
			}
		})
	}
	all.Go(func() { recordSyncs(ctx, s, out) })
	all.Wait()
	if err := s.Store.Close(); err != nil {
		t.Error(err)
	}
}

func takeUntil(ctx context.Context, s headgate.Store, g int, out *os.File) error {
	var limiters []*headgate.Limiter
	for _, p := range restartLimits {
		l, err := headgate.New(s, p, nil)
		if err != nil {
			return err
		}
		limiters = append(limiters, l)
	}
	for n := g; ctx.Err() == nil; n++ {
		i := n % len(limiters)
		d, err := limiters[i].Allow(context.Background(), "key")
		if err != nil || !d.Allowed {
			return fmt.Errorf("%s: got %v, %v want an admission", restartLimits[i].Name, d, err)
		}
		if err := writeRecord(out, restartRecord{int64(i), time.Now().UnixNano()}); err != nil {
			return err
		}
		if n%64 == 0 {
			time.Sleep(rand.N(3 * time.Millisecond))
		}
	}
	return nil
}

// recordSyncs records the syncs of the store.
func recordSyncs(ctx context.Context, s Folder, out *os.File) {
	for last := s.LastSync(); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if now := s.LastSync(); now != last {
			last = now
			_ = writeRecord(out, restartRecord{syncRecord, now.UnixNano()})
		}
	}
}

func writeRecord(out *os.File, r restartRecord) error {
	b, err := binary.Append(nil, binary.LittleEndian, []int64{r.index, r.at})
	if err == nil {
		_, err = out.Write(b)
	}
	return err
}

// readRecords reads the file of a process, which may have ended within a record.
func readRecords(t *testing.T, file string) (records []restartRecord) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	numbers := make([]int64, len(text)/16*2)
	if _, err := binary.Decode(text, binary.LittleEndian, numbers); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(numbers); i += 2 {
		records = append(records, restartRecord{numbers[i], numbers[i+1]})
	}
	return records
}

// lockedBuffer is a buffer that a process writes to while the test reads it.
type lockedBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

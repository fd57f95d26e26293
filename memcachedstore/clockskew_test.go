package memcachedstore

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/internal/testserver"
)

// watcher is a store that collects its reports, with a clock that the test sets. It
// makes no clock checks automatically.
type watcher struct {
	*Store
	skew    int64 // of its clock in µs
	reports []time.Duration
}

func newWatcher(t *testing.T, trueTime *int64, skew int64, namespace string, servers ...string) *watcher {
	w := &watcher{skew: skew}
	w.Store = mustNew(t, &Options{Namespace: namespace, OnClockSkew: func(skew time.Duration) { w.reports = append(w.reports, skew) }}, servers...)
	w.clocks.now = func() localTime { return at(*trueTime, w.skew) }
	w.clocks.next.Store(1 << 62)
	return w
}

func (w *watcher) mustReport(t *testing.T, action string, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(w.reports, want) {
		t.Errorf("%s: got reports %v want %v", action, w.reports, want)
	}
	w.reports = nil
}

// Of two processes whose clocks differ, both report the difference, in both directions.
func TestClockSkewIsReported(t *testing.T) {
	t.Parallel()
	servers := []string{testserver.Memcached(t).Addr(), testserver.MemcachedUnix(t).Addr(), testserver.Memcached(t).Addr()}
	for _, servers := range [][]string{servers[:1], servers} {
		var now int64
		fast, slow := newWatcher(t, &now, 1_500_000, "", servers...), newWatcher(t, &now, 0, "", servers...)
		right, elsewhere := newWatcher(t, &now, 100_000, "", servers...), newWatcher(t, &now, -3_600_000_000, "elsewhere", servers...)
		for _, w := range []*watcher{fast, slow, fast, right, slow, right, elsewhere} {
			w.checkClock()
			now += 100_000
		}
		fast.mustReport(t, "1.5 s ahead", 1400*time.Millisecond)
		slow.mustReport(t, "1.5 s behind", -1400*time.Millisecond)
		right.mustReport(t, "after the first process", -1300*time.Millisecond)
		elsewhere.mustReport(t, "another namespace")
	}
}

// A process that reads its clock and then does not run for ten seconds causes no report.
func TestClockSkewWithDelayedWrite(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"add", "cas"} {
		server := testserver.Memcached(t)
		var now int64
		first, delayed := newWatcher(t, &now, 0, "", server.Addr()), newWatcher(t, &now, 0, "", server.Addr())
		if verb == "cas" {
			first.checkClock()
		}
		between := once(func() {
			now += 10 * second
			first.checkClock()
		})
		tapAll(delayed.Store, func(got, _ string) {
			if got == verb {
				between()
			}
		})
		delayed.checkClock()
		first.checkClock()
		delayed.checkClock()
		first.mustReport(t, verb)
		delayed.mustReport(t, verb+", delayed")
		if now != 10*second {
			t.Errorf("%s was not sent", verb)
		}
	}
}

// A process reports that its own clock was set back. Another process that has the right
// time is not reported.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	var now int64
	w, right := newWatcher(t, &now, 3600*second, "", server.Addr()), newWatcher(t, &now, 0, "", server.Addr())
	w.checkClock()
	w.skew, now = 0, second
	w.checkClock()
	w.mustReport(t, "set back by an hour", -time.Hour+time.Second)
	now += second
	right.checkClock()
	w.checkClock()
	right.mustReport(t, "afterwards")
	w.mustReport(t, "afterwards")
}

// A value that this package has not written is not changed, and nothing is reported.
func TestForeignClockItem(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	client := newClient(t, server.Addr())
	var now int64
	w := newWatcher(t, &now, 0, "", server.Addr())
	name := w.clocks.key.name()
	for _, value := range [][]byte{{}, []byte("text"), make([]byte, clockLength), clockReading{1, maxUnusedAt + 1}.encode(), bytes.Repeat([]byte{formatClock}, 1_000_000)} {
		if err := client.Set(&memcache.Item{Key: name, Value: value}); err != nil {
			t.Fatal(err)
		}
		w.checkClock()
		if item, err := client.Get(name); err != nil || !bytes.Equal(item.Value, value) {
			t.Errorf("%.20x: got error %v or a changed value want the same", value, err)
		}
	}
	server.Kill()
	w.checkClock()
	w.mustReport(t, "foreign values and no server")
}

// The item expires, also if the clock is far ahead, and an ephemeral store deletes it.
func TestClockItemTTL(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	var now int64
	w := newWatcher(t, &now, 1<<50, "", server.Addr())
	w.written.all = map[digest]struct{}{} // ephemeral
	name := w.clocks.key.name()
	for range 2 {
		w.checkClock()
		if got := serverTTL(t, server, name); got < 59*time.Minute || got > time.Hour {
			t.Errorf("TTL: got %v want 1h", got)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := server.Do(t, "mg "+name+" t")[0]; got != "EN" {
		t.Errorf("after Close: got %q want no item", got)
	}
	w.checkClock()
	if got := server.Do(t, "mg "+name+" t")[0]; got != "EN" {
		t.Errorf("a check after Close: got %q want no item", got)
	}
}

// A decision starts a check. While the server does not answer the check, further
// decisions are made, and start no further check.
func TestClockCheckDoesNotDelayDecisions(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	started, release, reported := make(chan struct{}), make(chan struct{}), make(chan time.Duration, 1)
	s := mustNew(t, &Options{MaxConns: 1, OnClockSkew: func(skew time.Duration) { reported <- skew }}, server.Addr())
	var checks atomic.Int64
	name := s.clocks.key.name()
	tapAll(s, func(verb, got string) {
		if got == name && verb == "gets" {
			checks.Add(1)
			close(started)
			<-release
		}
	})
	b := mustBind(t, s, "rule", "", "1000/1h")
	mustTake(t, b, testInstant, "key", 1)
	<-started
	for i := range 300 {
		mustTake(t, b, testInstant, fmt.Sprint("key", i%3), 1)
	}
	if got := checks.Load(); got != 1 {
		t.Errorf("got %d checks want 1", got)
	}
	ahead := clockReading{1, time.Now().Add(time.Hour).UnixMicro()}
	if err := newClient(t, server.Addr()).Set(&memcache.Item{Key: name, Value: ahead.encode()}); err != nil {
		t.Fatal(err)
	}
	close(release)
	if skew := <-reported; skew > -59*time.Minute || skew < -time.Hour {
		t.Errorf("got skew %v want at least an hour behind", skew)
	}
	eventually(t, func() bool { return s.clocks.next.Load() < 1<<62 }, "the end of the check")
	if next := time.Duration(s.clocks.next.Load()) - time.Since(processStart); next > maxClockCheckInterval {
		t.Errorf("the next check: got after %v want at most %v", next, maxClockCheckInterval)
	}
}

// Close waits for a check in progress, which then reports nothing.
func TestCloseDuringClockCheck(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	started, release := make(chan struct{}), make(chan struct{})
	var reports atomic.Int64
	s := mustNew(t, &Options{OnClockSkew: func(time.Duration) { reports.Add(1) }}, server.Addr())
	name := s.clocks.key.name()
	if err := newClient(t, server.Addr()).Set(&memcache.Item{Key: name, Value: clockReading{1, maxUnusedAt}.encode()}); err != nil {
		t.Fatal(err)
	}
	tapAll(s, func(_, got string) {
		if got == name {
			close(started)
			<-release
		}
	})
	mustTake(t, mustBind(t, s, "rule", "", "10/1h"), testInstant, "key", 1)
	<-started
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	<-s.closing
	select {
	case <-closed:
		t.Error("Close returned during a check")
	default:
	}
	close(release)
	if err := <-closed; err != nil || reports.Load() != 0 {
		t.Errorf("Close: got error %v and %d reports want none", err, reports.Load())
	}
}

// Without OnClockSkew nothing is sent. With it, nothing runs and nothing is sent unless
// decisions are made.
func TestClockCheckOnlyWhenUsed(t *testing.T) {
	server := testserver.Memcached(t)
	var sent atomic.Int64
	tap := func(s *Store) *Store {
		tapAll(s, func(_, name string) {
			if name == s.clocks.key.name() {
				sent.Add(1)
			}
		})
		return s
	}
	off := tap(mustNew(t, nil, server.Addr()))
	b := mustBind(t, off, "rule", "", "10/1h")
	for range 3 {
		mustTake(t, b, headgate.StoreClock, "key", 1)
	}
	if err := off.Close(); err != nil || sent.Load() != 0 {
		t.Errorf("without OnClockSkew: error %v, %d requests want none", err, sent.Load())
	}
	mustEnd := leaktest.Since(t)
	on := tap(mustNew(t, &Options{OnClockSkew: func(time.Duration) {}}, server.Addr()))
	mustEnd()
	mustTake(t, mustBind(t, on, "rule", "", "10/1h"), headgate.StoreClock, "key", 1)
	mustEnd()
	if got := sent.Load(); got != 2 {
		t.Errorf("after one decision: got %d requests want gets and add", got)
	}
}

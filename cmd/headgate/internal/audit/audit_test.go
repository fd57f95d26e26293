package audit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/audit"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

func newLog(t *testing.T, store headgate.Store) (*audit.Log, *strings.Builder) {
	t.Helper()
	var text strings.Builder
	return audit.New(store, "here", slog.New(slog.NewTextHandler(&text, nil))), &text
}

func mustList(t *testing.T, l *audit.Log, before string, n int) ([]audit.Entry, bool) {
	t.Helper()
	entries, more, err := l.List(t.Context(), before, n)
	if err != nil {
		t.Fatal(err)
	}
	return entries, more
}

func TestEntriesAreListedByPage(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	defer store.Close()
	l, text := newLog(t, store)
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for i := range 5 {
		l.Add(t.Context(), now.Add(time.Duration(i)*time.Second), audit.Entry{Action: fmt.Sprint("action ", i), Author: "ann", Target: "network:192.0.2.7/32", Key: "h:1", Reason: "why"})
	}
	first, more := mustList(t, l, "", 3)
	if len(first) != 3 || !more || first[0].Action != "action 4" || first[0].Instance != "here" || !first[0].Time.Equal(now.Add(4*time.Second)) {
		t.Errorf("got %+v, more %v", first, more)
	}
	rest, more := mustList(t, l, first[2].ID, 3)
	if len(rest) != 2 || more || rest[1].Action != "action 0" {
		t.Errorf("the next page: got %+v, more %v", rest, more)
	}
	if none, _ := mustList(t, l, "unknown", 3); len(none) != 0 {
		t.Errorf("before an unknown entry: got %+v", none)
	}
	if got := strings.Count(text.String(), `msg="admin change"`); got != 5 {
		t.Errorf("got %d log lines want 5", got)
	}
	if log := text.String(); !strings.Contains(log, "target=network") || strings.Contains(log, "192.0.2.7") {
		t.Errorf("got the log %s, want only the kind of the target", log)
	}
}

// TestInstancesShareEntries: two instances add entries at the same time, and both list
// all of them.
func TestInstancesShareEntries(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	var logs [2]*audit.Log
	for i := range logs {
		store, err := redisstore.Open("redis://"+server.Addr(), &redisstore.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		logs[i], _ = newLog(t, store)
	}
	var all sync.WaitGroup
	for i, l := range logs {
		all.Go(func() {
			for j := range 20 {
				l.Add(t.Context(), time.Now(), audit.Entry{Action: fmt.Sprint(i, j)})
			}
		})
	}
	all.Wait()
	for i, l := range logs {
		l.Add(t.Context(), time.Now(), audit.Entry{Action: fmt.Sprint("last ", i)}) // saves what a conflict has left
	}
	for i, l := range logs {
		entries, _ := mustList(t, l, "", audit.MaxEntries)
		if len(entries) != 42 {
			t.Errorf("instance %d lists %d entries want 42", i, len(entries))
		}
	}
}

// unavailable is a store that does not save documents while down is set.
type unavailable struct {
	*memstore.Store
	down bool
}

var errDown = errors.New("down")

func (s *unavailable) SaveDocument(ctx context.Context, name string, expected headgate.DocumentVersion, content []byte) (headgate.DocumentVersion, error) {
	if s.down {
		return 0, errDown
	}
	return s.Store.SaveDocument(ctx, name, expected, content)
}

func TestEntriesOfAnOutageAreSavedLater(t *testing.T) {
	t.Parallel()
	store := &unavailable{memstore.New(nil), true}
	defer store.Close()
	l, text := newLog(t, store)
	l.Add(t.Context(), time.Now(), audit.Entry{Action: "during"})
	if entries, _ := mustList(t, l, "", 9); len(entries) != 1 {
		t.Errorf("during the outage: got %d entries want 1", len(entries))
	}
	if !strings.Contains(text.String(), `level=WARN msg="audit entries not saved yet" entries=1 error=down`) {
		t.Errorf("the log:\n%s", text)
	}
	store.down = false
	l.Add(t.Context(), time.Now(), audit.Entry{Action: "after"})
	other, _ := newLog(t, store)
	if entries, _ := mustList(t, other, "", 9); len(entries) != 2 || entries[1].Action != "during" {
		t.Errorf("another instance: got %+v want both", entries)
	}
}

// TestAuditIsCapped: the audit has at most 1,000 entries, and fits into a document even
// if every text is as long as possible.
func TestAuditIsCapped(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	defer store.Close()
	l, _ := newLog(t, store)
	long := strings.Repeat("\x01", 10_000)
	entries := make([]audit.Entry, 1500)
	for i := range entries {
		entries[i] = audit.Entry{Action: fmt.Sprint(i), Policy: long, Target: long, Key: long, Before: long, After: long, Reason: long}
	}
	l.Add(t.Context(), time.Now(), entries...)
	other, _ := newLog(t, store)
	got, _ := mustList(t, other, "", 5000)
	if len(got) < 100 || len(got) > audit.MaxEntries || got[0].Action != "1499" || len(got[0].Reason) > 300 {
		t.Errorf("got %d entries, the latest %s", len(got), got[0].Action)
	}
	short := make([]audit.Entry, 1500)
	l.Add(t.Context(), time.Now(), short...)
	if got, _ = mustList(t, other, "", 5000); len(got) != audit.MaxEntries {
		t.Errorf("got %d entries want %d", len(got), audit.MaxEntries)
	}
}

// plain is a store without documents.
type plain struct{ headgate.Store }

func TestWithoutDocumentsEntriesStayInTheProcess(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	defer store.Close()
	l, text := newLog(t, plain{store})
	l.Add(t.Context(), time.Now(), audit.Entry{Action: "one"})
	if entries, _ := mustList(t, l, "", 9); len(entries) != 1 || strings.Contains(text.String(), "WARN") {
		t.Errorf("got %+v and the log %s", entries, text)
	}
}

package heartbeat_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/heartbeat"
)

// All entries are in one call per interval. A bubble fails if a goroutine or a timer
// remains after the last entry was removed.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [][]int
		s := heartbeat.New(time.Second, func(_ context.Context, entries []int) func() {
			slices.Sort(entries)
			calls = append(calls, entries)
			return nil
		})
		time.Sleep(10 * time.Second)
		s.Add(1)
		s.Add(2)
		time.Sleep(1500 * time.Millisecond)
		s.Add(3)
		time.Sleep(time.Second)
		if !s.Remove(1) || s.Remove(1) {
			t.Error("remove an entry twice: want true and false")
		}
		time.Sleep(time.Second)
		s.Remove(2)
		s.Remove(3)
		time.Sleep(time.Minute)
		s.Add(4)
		time.Sleep(1500 * time.Millisecond)
		s.Close()
		s.Add(5)
		time.Sleep(time.Minute)
		want := [][]int{{1, 2}, {1, 2, 3}, {2, 3}, {4}}
		if !slices.EqualFunc(calls, want, slices.Equal) {
			t.Errorf("got calls %v want %v", calls, want)
		}
	})
}

// Close cancels a call in progress and waits for its end. An interval begins when the
// call before it has ended.
func TestSetWithSlowCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, ended atomic.Int64
		s := heartbeat.New(time.Second, func(ctx context.Context, _ []int) func() {
			if calls.Add(1) < 3 {
				time.Sleep(10 * time.Second)
			} else {
				<-ctx.Done()
				time.Sleep(time.Second)
			}
			ended.Add(1)
			return nil
		})
		s.Add(1)
		time.Sleep(25 * time.Second)
		if calls.Load() != 3 || ended.Load() != 2 {
			t.Fatalf("after 25 s: got %d calls, %d ended, want 3 and 2", calls.Load(), ended.Load())
		}
		s.Close()
		if ended.Load() != 3 {
			t.Error("Close returned before the call had ended")
		}
	})
}

// The function report may call Close.
func TestSetClosedByReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var s *heartbeat.Set[int]
		s = heartbeat.New(time.Second, func(context.Context, []int) func() {
			calls.Add(1)
			return func() { s.Close() }
		})
		s.Add(1)
		time.Sleep(time.Minute)
		if calls.Load() != 1 {
			t.Errorf("got %d calls want 1", calls.Load())
		}
	})
}

// An interval begins when report has ended. Close does not wait for report.
func TestSetWithSlowReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, reports atomic.Int64
		s := heartbeat.New(time.Second, func(context.Context, []int) func() {
			calls.Add(1)
			return func() {
				time.Sleep(10 * time.Second)
				reports.Add(1)
			}
		})
		s.Add(1)
		time.Sleep(5 * time.Second)
		s.Remove(1)
		s.Add(2)
		time.Sleep(9 * time.Second)
		if calls.Load() != 2 || reports.Load() != 1 {
			t.Fatalf("after 14 s: got %d calls, %d reports, want 2 and 1", calls.Load(), reports.Load())
		}
		before := time.Now()
		s.Close()
		if waited := time.Since(before); waited != 0 {
			t.Errorf("Close waited %v for report", waited)
		}
		time.Sleep(time.Minute)
		if calls.Load() != 2 || reports.Load() != 2 {
			t.Errorf("after Close: got %d calls, %d reports, want 2 of each", calls.Load(), reports.Load())
		}
	})
}

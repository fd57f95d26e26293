//go:build !race

// The tests in this file read logs of up to a million lines, so they run only without the
// race detector. Other tests read the the same way with it.

package replay_test

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/replay"
)

// TestCurveWithSpilledRequests: a curve is the same if the requests are in a temporary
// file, and it counts as the second half of the progress. The rate is so high that the
// curve has only four points.
func TestCurveWithSpilledRequests(t *testing.T) {
	lines, last := manyLines(), replay.Progress{}
	run := func(memory int64) *replay.Report {
		opts := &replay.Options{
			Scratch: openMemory, Curve: true, Memory: memory, TempDir: t.TempDir(),
			Progress: func(p replay.Progress) { last = p },
		}
		r, err := replay.Run(t.Context(), []replay.Log{textLog("log", lines)}, []headgate.Policy{headgate.MustPolicy("900000000/1s")}, openMemory, opts)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	inMemory, spilled := run(1<<30), run(replay.MinMemory)
	if inMemory.Memory.SpilledRuns > 0 || spilled.Memory.SpilledRuns == 0 {
		t.Fatalf("%d and %d spilled runs, want none and some", inMemory.Memory.SpilledRuns, spilled.Memory.SpilledRuns)
	}
	if got, want := fmt.Sprint(*spilled.Curve), fmt.Sprint(*inMemory.Curve); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if last.Decided != 2*spilled.Requests {
		t.Errorf("the last progress is %+v, want every request decided twice", last)
	}
}

// manyLines returns a log that needs more than the minimum of memory.
func manyLines() string {
	var b strings.Builder
	for i := range 600_000 {
		fmt.Fprintf(&b, "{\"ts_us\":%d,\"key\":\"%d\",\"cost\":200000000}\n", 1_000_000+i*100, i%7000)
	}
	return b.String()
}

// TestTemporaryFileChangesNothing: with little memory, requests are written to a
// temporary file and the result is the same.
func TestTemporaryFileChangesNothing(t *testing.T) {
	requests, runs := 1_200_000, 2
	if testing.Short() {
		requests, runs = 600_000, 1
	}
	log := recordsLog(t, randomRecords(requests, 60_000_000))
	decide := func(memory int64) (uint64, *replay.Report) {
		decisions := fnv.New64a()
		r, err := replay.Run(t.Context(), []replay.Log{log}, []headgate.Policy{headgate.MustPolicy("10/1s")}, openMemory,
			&replay.Options{Decisions: decisions, Memory: memory, TempDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return decisions.Sum64(), r
	}
	roomy, all := decide(replay.DefaultMemory)
	tight, some := decide(replay.MinMemory)
	if all.Memory.SpilledRuns != 0 || some.Memory.SpilledRuns < runs || some.Memory.RequestsBytes > replay.MinMemory {
		t.Errorf("%d and %d runs were spilled, and %d bytes held; want none, at least %d, at most %d",
			all.Memory.SpilledRuns, some.Memory.SpilledRuns, some.Memory.RequestsBytes, runs, replay.MinMemory)
	}
	if roomy != tight || all.OutOfOrder != some.OutOfOrder || all.Policies[0].Denied != some.Policies[0].Denied {
		t.Errorf("with little memory the decisions differ: %d of %d denied, %d of %d out of order",
			some.Policies[0].Denied, all.Policies[0].Denied, some.OutOfOrder, all.OutOfOrder)
	}
}

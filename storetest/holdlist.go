package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// checkHoldLists opens holds and leases on keys, and compares the lists of them with what
// was opened: all of it, pages, and what is left after commits and deadlines.
func checkHoldLists(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	text := "1000/1h"
	if a.OnlyHolds() {
		text = "1000 concurrent"
	}
	rule := headgate.Rule{Scope: ts.name(), Name: "list", Algorithm: a, Limit: headgate.MustParseLimit(text)}
	bound, err := ts.store.Bind(rule)
	ts.mustf(err, "bind")
	lister, ok := bound.(headgate.HoldLister)
	if !ok {
		return // it is optional
	}
	l := holdLists{ts, lister, ts.store.(headgate.HoldStore), a}
	l.mustList(start, 0, 10, nil, headgate.HoldList{})
	want, total := l.open(a.CanLease())
	l.mustList(start, 0, 1000, want, total)
	l.mustList(start, 3, 4, want[3:7], total)
	l.mustList(start, len(want), 10, nil, total)
	l.mustList(start, 0, 0, nil, total)
	l.endOne(&want, &total)
	l.mustList(start, 0, 1000, want, total)
	var left []headgate.HoldRecord // those whose deadline is later
	later := start + headgate.Instant(time.Minute.Microseconds())
	for _, r := range want {
		if r.Deadline > later {
			left = append(left, r)
			continue
		}
		total.Holds, total.Held = total.Holds-1, total.Held-r.Units
	}
	l.mustList(later, 0, 1000, left, total)
}

// holdLists lists the holds of one key.
type holdLists struct {
	ts     *tester
	lister headgate.HoldLister
	store  headgate.HoldStore
	a      headgate.Algorithm
}

const listedKey = "a key with holds"

// open opens 12 holds with two deadlines, and one lease if leased is set. It returns the
// records of them, and the totals.
func (l *holdLists) open(leased bool) (want []headgate.HoldRecord, total headgate.HoldList) {
	for i := range 12 {
		ttl := time.Minute
		if i%2 == 0 {
			ttl = time.Hour / 2
		}
		op := headgate.HoldOp{Op: headgate.Op{Bound: l.lister, Key: listedKey, Cost: int64(i + 1)}, ID: headgate.NewHoldID(), Private: i%3 == 0}
		l.apply(headgate.OpenHold, ttl, op)
		r := headgate.HoldRecord{ID: nameOf(op.ID), Units: op.Cost, Deadline: start + headgate.Instant(ttl.Microseconds())}
		want, total.Holds, total.Held = append(want, r), total.Holds+1, total.Held+r.Units
	}
	store, ok := l.store.(headgate.LeaseStore)
	if !ok || !leased {
		return want, total
	}
	op := headgate.LeaseOp{Bound: l.lister, Key: listedKey, ID: headgate.NewHoldID(), Want: 50, Max: 100, TTL: 2 * time.Minute}
	_, err := store.ApplyLease(background, start, op)
	l.ts.mustf(err, "lease")
	deadline := start + headgate.Instant(op.TTL.Microseconds())
	total.Leases, total.Leased = 1, 50
	return append(want, headgate.HoldRecord{ID: nameOf(op.ID), Units: 50, Deadline: deadline, Lease: true}), total
}

// endOne commits the third hold, found by the id in the list.
func (l *holdLists) endOne(want *[]headgate.HoldRecord, total *headgate.HoldList) {
	r := (*want)[2]
	l.apply(headgate.CommitHold, 0, headgate.HoldOp{Op: headgate.Op{Bound: l.lister, Key: listedKey}, ID: r.ID})
	*want = slices.Delete(slices.Clone(*want), 2, 3)
	total.Holds, total.Held = total.Holds-1, total.Held-r.Units
}

func (l *holdLists) apply(verb headgate.HoldVerb, ttl time.Duration, op headgate.HoldOp) {
	results := make([]headgate.HoldResult, 1)
	_, err := l.store.ApplyHolds(background, start, verb, ttl, []headgate.HoldOp{op}, results)
	l.ts.mustf(err, "%s", verb)
	l.ts.mustf(results[0].Err, "%s", verb)
}

// mustList requires a list with these records and totals. A store may know the start of a
// hold, or not.
func (l *holdLists) mustList(now headgate.Instant, skip, most int, records []headgate.HoldRecord, total headgate.HoldList) {
	got, err := l.lister.ListHolds(background, now, listedKey, skip, most)
	l.ts.mustf(err, "list")
	for i := range got.Records {
		if r := &got.Records[i]; r.Begin != 0 && r.Begin != start {
			l.ts.failf("%s: record %d begins at %d want %d or 0", l.a, i, r.Begin, start)
		} else {
			r.Begin = 0
		}
	}
	want := total
	want.Records = records
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.ts.failf("%s, at %d, skip %d, most %d:\n got %+v\nwant %+v", l.a, now, skip, most, got, want)
	}
}

// nameOf returns an id with the bytes that a store compares.
func nameOf(id headgate.HoldID) (name headgate.HoldID) {
	copy(name[:12], id[:])
	return name
}

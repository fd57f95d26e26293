package activity

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// Outcomes is the number of outcomes of a request under one policy.
const Outcomes = 5

// Counts are numbers of requests by outcome: allowed, denied, shadow, undecided and
// degraded.
type Counts [Outcomes]uint64

// Others is the name under which the policies are counted together that are more than a
// [Timeline] keeps.
const Others = "others"

// maxSeries is the maximum number of policies with a series of their own: the first
// policies that have traffic.
const maxSeries = 200

// Totals are the counts of a process since its start.
type Totals struct {
	Policies map[string]Counts
	// Latency has the number of measured decisions up to each of Bounds, and at the end
	// of all; not cumulative.
	Latency []uint64
}

// Resolution is the length of the slots of a series.
type Resolution int

// The resolutions.
const (
	Live   Resolution = iota // 1 s, for the last 5 minutes
	Fine                     // 10 s, for the last hour
	Coarse                   // 1 min, for the last 12 hours
	resolutions
)

// Step returns the length of a slot.
func (r Resolution) Step() time.Duration {
	return [resolutions]time.Duration{time.Second, 10 * time.Second, time.Minute}[r]
}

// Slots returns the number of slots that are kept.
func (r Resolution) Slots() int { return [resolutions]int{300, 360, 720}[r] }

// Timeline keeps how many requests each policy has had in the last hours, and how long
// decisions took. It reads totals that are counted anyway, and stores their differences:
// a decision costs nothing more. It needs at most about 7 MB. It is created with
// [NewTimeline] and may be used concurrently.
type Timeline struct {
	read   func() Totals
	bounds []float64 // upper bounds of the latency buckets, in seconds

	mu      sync.Mutex
	last    Totals // at the last tick
	ticked  time.Time
	series  map[string]*series
	latency [resolutions][][]uint32 // by slot and bucket
}

// series has the slots of one policy, as rings. The slot with number n is at n modulo the
// length of the ring.
type series struct {
	slots [resolutions][][Outcomes]uint32
}

// NewTimeline returns a timeline that begins at now. read returns the totals; bounds are
// the upper bounds of the latency buckets, in seconds. Call [Timeline.Run].
func NewTimeline(read func() Totals, bounds []float64, now time.Time) *Timeline {
	t := &Timeline{read: read, bounds: bounds, last: read(), ticked: now, series: make(map[string]*series)}
	for r := range resolutions {
		t.latency[r] = make([][]uint32, r.Slots())
		for i := range t.latency[r] {
			t.latency[r][i] = make([]uint32, len(bounds)+1)
		}
	}
	return t
}

// Run updates the timeline at the end of each slot until ctx ends.
func (t *Timeline) Run(ctx context.Context) {
	for {
		now := time.Now()
		next := now.Truncate(Live.Step()).Add(Live.Step())
		select {
		case <-ctx.Done():
			return
		case <-time.After(next.Sub(now)):
			t.Tick(time.Now())
		}
	}
}

// Tick adds what was counted since the last tick to the slot that contains the time of
// the last tick.
func (t *Timeline) Tick(now time.Time) {
	totals := t.read()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tick(now, totals)
}

func (t *Timeline) tick(now time.Time, totals Totals) {
	if now.Before(t.ticked) {
		now = t.ticked // the clock was set back
	}
	for name, counts := range totals.Policies {
		if counts == t.last.Policies[name] {
			continue
		}
		s, before := t.seriesOf(name), t.last.Policies[name]
		for r := range resolutions {
			slot := &s.slots[r][slotOf(t.ticked, r)]
			for o := range counts {
				slot[o] = addSaturating(slot[o], counts[o]-before[o])
			}
		}
	}
	for i, n := range totals.Latency {
		for r := range resolutions {
			n := n
			if i < len(t.last.Latency) {
				n -= t.last.Latency[i]
			}
			slot := t.latency[r][slotOf(t.ticked, r)]
			slot[i] = addSaturating(slot[i], n)
		}
	}
	t.clearUntil(now)
	t.last, t.ticked = totals, now
}

// seriesOf returns the series of a policy, which it creates if necessary.
func (t *Timeline) seriesOf(name string) *series {
	if s := t.series[name]; s != nil {
		return s
	}
	if len(t.series) >= maxSeries && name != Others {
		return t.seriesOf(Others)
	}
	s := &series{}
	for r := range resolutions {
		s.slots[r] = make([][Outcomes]uint32, r.Slots())
	}
	t.series[name] = s
	return s
}

// clearUntil clears the slots that begin after the last tick, up to the one of now.
func (t *Timeline) clearUntil(now time.Time) {
	for r := range resolutions {
		from, to := number(t.ticked, r), number(now, r)
		for n := max(from+1, to-int64(r.Slots())+1); n <= to; n++ {
			i := int(n % int64(r.Slots()))
			clear(t.latency[r][i])
			for _, s := range t.series {
				s.slots[r][i] = [Outcomes]uint32{}
			}
		}
	}
}

// number returns the number of the slot that contains a time.
func number(at time.Time, r Resolution) int64 { return at.UnixNano() / int64(r.Step()) }

func slotOf(at time.Time, r Resolution) int { return int(number(at, r) % int64(r.Slots())) }

func addSaturating(to uint32, n uint64) uint32 { return uint32(min(uint64(to)+n, math.MaxUint32)) }

// Series is the content of a timeline, the earliest slot first. The last slot is
// incomplete.
type Series struct {
	From     time.Time // begin of the first slot
	Step     time.Duration
	Policies map[string][Outcomes][]uint32
	Latency  []Latency
}

// Latency describes the durations of the decisions of one slot. The quantiles are
// estimates within the buckets of the histogram.
type Latency struct {
	Count    uint64
	P50, P99 time.Duration
}

// Series returns the slots of a resolution at the time now, from the slot that contains
// the time from on, or all slots for the zero time. Policies without a request in them
// are missing.
func (t *Timeline) Series(now time.Time, r Resolution, from time.Time) Series {
	totals := t.read()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tick(now, totals)
	last := number(t.ticked, r)
	first := last - int64(r.Slots()) + 1
	if !from.IsZero() {
		first = min(max(first, number(from, r)), last)
	}
	n, slots := int(last-first+1), int64(r.Slots())
	out := Series{From: time.Unix(0, first*int64(r.Step())).UTC(), Step: r.Step(), Policies: make(map[string][Outcomes][]uint32, len(t.series))}
	for name, s := range t.series {
		if all, used := s.last(r, first, n); used {
			out.Policies[name] = all
		}
	}
	for i := range n {
		out.Latency = append(out.Latency, t.latencyOf(t.latency[r][(first+int64(i))%slots]))
	}
	return out
}

// last returns n slots from the one with number first on, and whether any of them has a
// request.
func (s *series) last(r Resolution, first int64, n int) (all [Outcomes][]uint32, used bool) {
	for o := range all {
		all[o] = make([]uint32, n)
		for i := range n {
			all[o][i] = s.slots[r][(first+int64(i))%int64(r.Slots())][o]
			used = used || all[o][i] > 0
		}
	}
	return all, used
}

func (t *Timeline) latencyOf(buckets []uint32) Latency {
	total := uint64(0)
	for _, n := range buckets {
		total += uint64(n)
	}
	return Latency{total, t.quantile(buckets, total, 0.5), t.quantile(buckets, total, 0.99)}
}

// quantile returns the duration below which the part q of the decisions is, by linear
// interpolation in its bucket. Durations above all bounds count as the last bound.
func (t *Timeline) quantile(buckets []uint32, total uint64, q float64) time.Duration {
	rank, below := q*float64(total), 0.0
	for i, n := range buckets {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		if i == len(t.bounds) {
			break
		}
		low := 0.0
		if i > 0 {
			low = t.bounds[i-1]
		}
		return time.Duration((low + (t.bounds[i]-low)*(rank-below)/float64(n)) * float64(time.Second))
	}
	if total == 0 {
		return 0
	}
	return time.Duration(slices.Max(t.bounds) * float64(time.Second))
}

package replay

import (
	"runtime/metrics"
	"time"

	"github.com/headgate/headgate"
)

// Report is the outcome of a replay. Its JSON form is what `headgate replay --json` prints; durations and instants in it are
// whole µs, shares lie between 0 and 1.
type Report struct {
	Logs       []LogReport `json:"logs"`
	Key        string      `json:"key"`   // what the key of a log line is made of
	Lines      int64       `json:"lines"` // of all logs
	Requests   int64       `json:"requests"`
	Unreadable int64       `json:"unreadable"`   // lines that were passed over
	BadLines   []BadLine   `json:"bad_lines"`    // the first few of them
	OutOfOrder int64       `json:"out_of_order"` // requests earlier than one on a line before them
	FirstUS    int64       `json:"first_us"`     // the earliest instant, in µs since the epoch
	LastUS     int64       `json:"last_us"`      // the latest

	// Keys is how many different keys there were. KeysExact is false if memory did not hold the statistics of all: then Keys and
	// KeysTouched are estimates (standard error 0.8 %), quantiles are of the keys that were held, and a key's numbers under Worst
	// may miss up to DenialsForgotten denials and the requests beside them.
	Keys             int64 `json:"keys"`
	KeysExact        bool  `json:"keys_exact"`
	DenialsForgotten int64 `json:"denials_forgotten"`

	Policies []PolicyReport `json:"policies"` // in the order in which they were given
	Worst    []WorstKey     `json:"worst"`    // the keys with most denials over all policies; at most 10
	Series   Series         `json:"series"`
	Memory   MemoryReport   `json:"memory"`

	ElapsedUS      int64 `json:"elapsed_us"`
	LinesPerSecond int64 `json:"lines_per_second"`
}

// PolicyReport is what one policy did to the requests.
type PolicyReport struct {
	Algorithm   headgate.Algorithm `json:"algorithm"`
	Limits      []LimitReport      `json:"limits"`
	Admitted    int64              `json:"admitted"`
	Denied      int64              `json:"denied"`
	DeniedShare float64            `json:"denied_share"`
	Never       int64              `json:"never"` // of those denied, such whose cost is above the limit
	// KeysTouched is how many keys were denied at least once.
	KeysTouched      int64     `json:"keys_touched"`
	KeysTouchedShare float64   `json:"keys_touched_share"`
	DenialsPerKey    Quantiles `json:"denials_per_key"`
	// Differs is how many decisions are not those of the sliding log, if that is among several policies; else it is nil.
	Differs      *int64      `json:"differs_from_sliding_log,omitempty"`
	DiffersShare float64     `json:"differs_share,omitempty"`
	Store        *StoreStats `json:"store,omitempty"`
}

// LimitReport is one limit of a policy.
type LimitReport struct {
	Limit  string `json:"limit"`
	Denied int64  `json:"denied"` // requests it denied; several limits may deny one request
}

// Quantiles are of the denials of each key: half of all keys have at most P50, and so on.
type Quantiles struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// WorstKey is a key that was denied often.
type WorstKey struct {
	Key      string  `json:"key"`
	Requests int64   `json:"requests"`
	Denied   []int64 `json:"denied"` // by each policy
}

// Series counts requests and denials in equal spans of time, one after another.
type Series struct {
	StartUS  int64     `json:"start_us"` // when the first span begins, in µs since the epoch
	WidthUS  int64     `json:"width_us"`
	Requests []int64   `json:"requests"`
	Denied   [][]int64 `json:"denied"` // by each policy
}

// MemoryReport says what a replay held.
type MemoryReport struct {
	BoundBytes    int64 `json:"bound_bytes"`    // for requests and statistics
	RequestsBytes int64 `json:"requests_bytes"` // most that requests took
	KeysBytes     int64 `json:"keys_bytes"`     // what statistics of keys took at the end
	SpilledBytes  int64 `json:"spilled_bytes"`  // written to the temporary file
	SpilledRuns   int   `json:"spilled_runs"`
	ProcessBytes  int64 `json:"process_bytes"` // of the whole process, at the end, as the Go runtime counts it
}

const worstKeys = 10

// newReport sums up; d is nil if nothing was decided.
func newReport(g *gathering, d *deciding, o *Options, start time.Time) *Report {
	r := &Report{
		Logs: g.logs, Key: o.Key.String(), Lines: g.lines, Requests: g.requests, Unreadable: g.unreadable,
		BadLines: append([]BadLine{}, g.shown...), OutOfOrder: g.outOfOrder, KeysExact: true,
		Policies: []PolicyReport{}, Worst: []WorstKey{},
		Memory: MemoryReport{
			BoundBytes: o.Memory, RequestsBytes: g.peak, SpilledBytes: g.spill.bytes, SpilledRuns: len(g.spill.runs),
			ProcessBytes: processBytes(),
		},
	}
	if d != nil {
		r.FirstUS, r.LastUS = g.first, g.last
		r.addDecisions(d, o)
	}
	elapsed := max(time.Since(start), time.Microsecond)
	r.ElapsedUS = elapsed.Microseconds()
	r.LinesPerSecond = int64(float64(r.Lines) / elapsed.Seconds())
	return r
}

func (r *Report) addDecisions(d *deciding, o *Options) {
	r.Keys, r.KeysExact = d.tally.distinct()
	r.DenialsForgotten = d.tally.forgotten
	r.Memory.KeysBytes = d.tally.bytes()
	for i, l := range d.lanes {
		r.Policies = append(r.Policies, r.policy(d, l, i, o))
	}
	for _, n := range d.tally.worst(worstKeys) {
		r.Worst = append(r.Worst, WorstKey{d.tally.keys.names[n], d.tally.requests[n], d.tally.of(n)})
	}
	r.Series = Series{d.series.start, d.series.width, d.series.requests, d.series.denied}
}

func (r *Report) policy(d *deciding, l *lane, lane int, o *Options) PolicyReport {
	denials, touched := d.tally.laneDenials(lane)
	p := PolicyReport{
		Algorithm: l.policy.Algorithm, Admitted: l.admitted, Denied: l.denied, DeniedShare: share(l.denied, r.Requests),
		Never: l.never, KeysTouched: touched, KeysTouchedShare: share(touched, r.Keys), DenialsPerKey: quantiles(denials),
	}
	for n, name := range l.names {
		p.Limits = append(p.Limits, LimitReport{name, l.deniedBy[n]})
	}
	if d.exact != nil {
		p.Differs, p.DiffersShare = &l.differs, share(l.differs, r.Requests)
	}
	if o.StoreStats != nil {
		stats := o.StoreStats(l.store)
		p.Store = &stats
	}
	return p
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// quantiles are by nearest rank; sorted holds at least one number.
func quantiles(sorted []int64) Quantiles {
	at := func(percent int) int64 { return sorted[(len(sorted)*percent+99)/100-1] }
	return Quantiles{at(50), at(90), at(99), at(100)}
}

// processBytes is the memory that the Go runtime has from the system and has not given back.
func processBytes() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

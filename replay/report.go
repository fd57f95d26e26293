package replay

import (
	"runtime/metrics"
	"time"

	"github.com/headgate/headgate"
)

// Report is the result of a replay. `headgate replay --json` prints it as JSON.
// Durations and times in it are whole µs; rates (fields with Share in the name) are
// between 0 and 1.
type Report struct {
	Logs       []LogReport `json:"logs"`
	Key        string      `json:"key"`   // names of the log fields that make the key, such as “ip+path”
	Lines      int64       `json:"lines"` // number of lines in all logs
	Requests   int64       `json:"requests"`
	Unreadable int64       `json:"unreadable"`   // number of lines that could not be parsed and were skipped
	BadLines   []BadLine   `json:"bad_lines"`    // the first unreadable lines
	OutOfOrder int64       `json:"out_of_order"` // requests that are earlier than a request on a previous line
	FirstUS    int64       `json:"first_us"`     // time of the first request, in µs since the epoch
	LastUS     int64       `json:"last_us"`      // time of the last request, in µs since the epoch

	// Keys is the number of distinct keys. KeysExact is false if the statistics of all
	// keys did not fit into memory. Then Keys and KeysTouched are estimates (standard
	// error 0.8 %), quantiles cover only the keys in memory, and the counts of a key in
	// Worst may be too low: up to DenialsForgotten denials, and the requests that
	// belong to them, can be missing.
	Keys             int64 `json:"keys"`
	KeysExact        bool  `json:"keys_exact"`
	DenialsForgotten int64 `json:"denials_forgotten"`

	Policies []PolicyReport  `json:"policies"`         // one for each policy, in input order
	Advice   *Recommendation `json:"advice,omitempty"` // the algorithm to choose; nil if it was not measured
	Curve    *Curve          `json:"curve,omitempty"`  // nil without [Options].Curve
	Worst    []WorstKey      `json:"worst"`            // the keys with the most denials under all policies; at most 10
	Series   Series          `json:"series"`
	Memory   MemoryReport    `json:"memory"`

	ElapsedUS      int64 `json:"elapsed_us"`
	LinesPerSecond int64 `json:"lines_per_second"`
}

// PolicyReport is the result of one policy.
type PolicyReport struct {
	Algorithm   headgate.Algorithm `json:"algorithm"`
	Limits      []LimitReport      `json:"limits"`
	Admitted    int64              `json:"admitted"`
	Denied      int64              `json:"denied"`
	DeniedShare float64            `json:"denied_share"`
	Never       int64              `json:"never"` // requests denied because their cost is above the limit
	// KeysTouched is the number of keys with at least one denial.
	KeysTouched      int64     `json:"keys_touched"`
	KeysTouchedShare float64   `json:"keys_touched_share"`
	DenialsPerKey    Quantiles `json:"denials_per_key"`
	// Differs is the number of decisions that differ from those of the sliding log. It
	// is nil unless the sliding log is one of several policies.
	Differs      *int64      `json:"differs_from_sliding_log,omitempty"`
	DiffersShare float64     `json:"differs_share,omitempty"`
	Store        *StoreStats `json:"store,omitempty"`
}

// LimitReport is the number of requests that one limit of a policy denied.
type LimitReport struct {
	Limit    string `json:"limit"`
	Rate     int64  `json:"rate"`      // units for each period
	PeriodUS int64  `json:"period_us"` // in µs
	Denied   int64  `json:"denied"`    // number of requests that the limit denied; several limits may deny a request
	// MostInPeriod is the most units of one key that the policy admitted in any one
	// period of the limit. It is nil if it was not measured: for a single policy, for an
	// algorithm that delays requests, if the scratch store was full, and if the log has
	// operations other than takes.
	MostInPeriod *int64 `json:"most_in_period,omitempty"`
}

// Quantiles are percentiles of the number of denials of a key. P50 means that half of
// all keys have at most this number of denials; keys without denials are included.
type Quantiles struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// WorstKey is a key with many denials.
type WorstKey struct {
	Key      string  `json:"key"`
	Requests int64   `json:"requests"`
	Denied   []int64 `json:"denied"` // number of denials under each policy
	// Series is the number of denials in each interval of [Report].Series, under the
	// policy of the curve. It is nil without a curve.
	Series []int64 `json:"series,omitempty"`
}

// Series counts requests and denials over time, in consecutive intervals of equal
// length.
type Series struct {
	StartUS  int64     `json:"start_us"` // beginning of the first interval, in µs since the epoch
	WidthUS  int64     `json:"width_us"`
	Requests []int64   `json:"requests"`
	Denied   [][]int64 `json:"denied"` // for each policy, the number of denials in each interval
}

// MemoryReport describes how much memory a replay used, in bytes.
type MemoryReport struct {
	BoundBytes    int64 `json:"bound_bytes"`    // Options.Memory: the maximum for requests and statistics
	RequestsBytes int64 `json:"requests_bytes"` // the most memory that requests used
	KeysBytes     int64 `json:"keys_bytes"`     // memory of the statistics of keys at the end
	SpilledBytes  int64 `json:"spilled_bytes"`  // number of bytes written to the temporary file
	SpilledRuns   int   `json:"spilled_runs"`
	ProcessBytes  int64 `json:"process_bytes"` // memory of the whole process at the end, as the Go runtime counts it
}

const worstKeys = 10

// newReport builds the report, without curve and speed. d is nil if the logs contain no
// request.
func newReport(g *gatherer, d *decider, o *Options) *Report {
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
	return r
}

// addSpeed adds the duration since start and the throughput.
func (r *Report) addSpeed(start time.Time) {
	elapsed := max(time.Since(start), time.Microsecond)
	r.ElapsedUS = elapsed.Microseconds()
	r.LinesPerSecond = int64(float64(r.Lines) / elapsed.Seconds())
}

func (r *Report) addDecisions(d *decider, o *Options) {
	r.Keys, r.KeysExact = d.tally.distinct()
	r.DenialsForgotten = d.tally.forgotten
	r.Memory.KeysBytes = d.tally.bytes()
	for i, l := range d.replays {
		r.Policies = append(r.Policies, r.policy(d, l, i, o))
	}
	r.Advice = r.advise()
	for _, n := range d.tally.worst(worstKeys) {
		r.Worst = append(r.Worst, WorstKey{Key: d.tally.keys.names[n], Requests: d.tally.requests[n], Denied: d.tally.of(n)})
	}
	r.Series = Series{d.series.start, d.series.width, d.series.requests, d.series.denied}
}

func (r *Report) policy(d *decider, l *policyReplay, index int, o *Options) PolicyReport {
	denials, touched := d.tally.policyDenials(index)
	p := PolicyReport{
		Algorithm: l.algorithm, Admitted: l.admitted, Denied: l.denied, DeniedShare: share(l.denied, r.Requests),
		Never: l.never, KeysTouched: touched, KeysTouchedShare: share(touched, r.Keys), DenialsPerKey: quantiles(denials),
	}
	for n, name := range l.names {
		limit := l.policy.Limits[n]
		p.Limits = append(p.Limits, LimitReport{name, limit.Rate, limit.Period.Microseconds(), l.deniedBy[n], l.mostInPeriod(n, o)})
	}
	if d.exact != nil {
		p.Differs, p.DiffersShare = &l.differs, share(l.differs, r.Requests)
	}
	if stats := o.statsOf(l.store); stats != (StoreStats{}) {
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

// quantiles returns percentiles by the nearest-rank method. sorted must not be empty.
func quantiles(sorted []int64) Quantiles {
	at := func(percent int) int64 { return sorted[(len(sorted)*percent+99)/100-1] }
	return Quantiles{at(50), at(90), at(99), at(100)}
}

// processBytes returns the memory that the Go runtime has and has not returned to the
// operating system.
func processBytes() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

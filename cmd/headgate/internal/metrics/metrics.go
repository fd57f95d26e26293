// Package metrics provides monitoring data for operators: Prometheus metrics, the keys
// that are denied most often, and a log of denials with a limited rate. Each API has
// its own [engine.Observer] here, which receives every request of the API. The package
// does not affect decisions.
//
// No label contains a key, an address, or anything else that a client chooses.
// Exception: the labels that are compatible with envoyproxy/ratelimit, but the number
// of their values is limited. The number of other series depends only on the numbers of
// APIs, policies and outcomes. docs/reference/metrics.md lists all metrics.
package metrics

import (
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate/headgate/cmd/headgate/internal/activity"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

// Others is the value of the label policy for all policies after the first maxPolicies.
const Others = "others"

// maxPolicies is the maximum number of policies that are counted separately. The
// maximum includes policies of earlier configurations since the start of the process.
const maxPolicies = 10_000

// everyNth is the sampling interval for durations: one in everyNth decisions is
// measured if the store is in memory. A decision then takes less time than reading the
// clock.
const everyNth = 16

// Outcome is the result of a request under one policy.
type Outcome uint8

// The values of [Outcome].
const (
	Allowed      Outcome = iota
	Denied               // denied by the limit, or by the local fallback while the store is unavailable
	Shadow               // allowed only because the policy is in shadow mode
	StoreFailure         // no decision: the store failed, and the policy fails closed
	Degraded             // allowed without the store, because the policy fails open or by the local fallback
	outcomes             // number of outcomes
)

// String returns the outcome as the value of the label outcome.
func (o Outcome) String() string {
	return [outcomes]string{"allowed", "denied", "shadow", "undecided", "degraded"}[o]
}

// Options are the settings for [New]. A field with its zero value has the default in
// its comment; nil options mean all defaults.
type Options struct {
	Version string // version of Headgate, for headgate_build_info
	Store   string // name of the store, for headgate_build_info
	// Whether the store is on a network: the duration of every decision is then
	// measured, not of one in 16.
	Networked bool
	Denials   *Denials // receives every denial; nil means that denials are only counted
	// Wrap returns the observer that an engine notifies in place of a recorder. nil means
	// the recorder itself.
	Wrap func(engine.Observer) engine.Observer
}

// Metrics holds all metrics of a process. It is created with [New] and may be used
// concurrently.
type Metrics struct {
	registry *prometheus.Registry
	every    uint32
	denials  *Denials
	admitted *activity.TopKeys // nil without denials
	wrap     func(engine.Observer) engine.Observer

	mu        sync.Mutex
	recorders []*Recorder // in the order of their creation

	operations   *prometheus.CounterVec
	refused      *prometheus.CounterVec
	latency      *prometheus.HistogramVec
	store        storeState
	storeUp      prometheus.Gauge
	nodeDown     *prometheus.GaugeVec
	outages      *prometheus.CounterVec
	clockSetBack prometheus.Counter
	clockAhead   prometheus.Counter
	clockBehind  prometheus.Counter
	draining     prometheus.Gauge
}

// New returns the metrics of a process. opts may be nil.
func New(opts *Options) *Metrics {
	if opts == nil {
		opts = &Options{}
	}
	m := &Metrics{registry: prometheus.NewRegistry(), every: everyNth, denials: opts.Denials, wrap: opts.Wrap}
	if opts.Networked {
		m.every = 1
	}
	if m.denials != nil {
		m.admitted = activity.NewTopKeys(monotonicNow())
	}
	m.addRecorders()
	m.addState()
	m.add(collectors.NewGoCollector())
	m.add(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := gauge("build_info", "Always 1; the labels are the version of the program and of Go, and the store.", "version", "goversion", "store")
	info.WithLabelValues(opts.Version, runtime.Version(), opts.Store).Set(1)
	m.add(info)
	if opts.Denials != nil {
		m.add(&suppressedDenials{opts.Denials})
	}
	return m
}

// latencyBounds are the upper bounds of the buckets of durations, in seconds.
var latencyBounds = []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1}

// addRecorders adds the metrics of requests to the APIs.
func (m *Metrics) addRecorders() {
	m.operations = counter("operations_total", "Requests with an operation other than a check or the opening of a hold, such as refund or commit.", "api", "verb")
	m.refused = counter("refused_total", "Invalid requests, rejected before evaluation.", "api", "reason")
	m.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "decision_duration_seconds",
		Help:    "Duration of a decision, including the store and excluding the API's protocol. With a memory store, one in 16 is measured.",
		Buckets: latencyBounds,
	}, []string{"api"})
	m.add((*decisions)(m), m.operations, m.refused, m.latency)
}

// addState adds the metrics of the store's availability and of the shutdown.
func (m *Metrics) addState() {
	up := gauge("store_up", "1 if the store is available, 0 if not, or if any of its nodes is not.")
	m.nodeDown = gauge("store_node_unavailable", "1 if this node of the store is unavailable, 0 if it has recovered.", "node")
	draining := gauge("draining", "1 if this instance is shutting down, 0 if not.")
	m.storeUp, m.draining = up.WithLabelValues(), draining.WithLabelValues()
	m.storeUp.Set(1)
	m.draining.Set(0)
	m.outages = counter("store_outages_total", "Store outages, by the reason of the first error.", "reason")
	clock := counter("store_clock_set_back_total", "Times that the clock of the Redis server was found to have gone back; at most one a minute.")
	m.clockSetBack = clock.WithLabelValues()
	skew := counter("store_clock_skew_total", "Times that the local clock was found to be ahead of, or behind, the clock of another process of the same memcached store; at most one a minute.", "direction")
	m.clockAhead, m.clockBehind = skew.WithLabelValues("ahead"), skew.WithLabelValues("behind")
	m.add(up, m.nodeDown, draining, m.outages, clock, skew)
}

const namespace = "headgate"

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// add registers collectors. It panics if two collectors have the same name, which is a
// programming error.
func (m *Metrics) add(all ...prometheus.Collector) { m.registry.MustRegister(all...) }

// maxScrapes is the maximum number of concurrent scrapes. It is limited because each
// scrape keeps all metrics in memory.
const maxScrapes = 10

// Handler returns a handler that serves all metrics in the Prometheus formats. It
// responds with status 503 while ten other scrapes are in progress.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes})
}

// Gatherer returns the gatherer whose metrics [Metrics.Handler] serves.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Draining sets the metric headgate_draining to 1.
func (m *Metrics) Draining() { m.draining.Set(1) }

// ObserveClockSetBack counts that the clock of the Redis server went back.
func (m *Metrics) ObserveClockSetBack(time.Duration) { m.clockSetBack.Inc() }

// ObserveClockSkew counts that the local clock differs from the clock of another process
// that uses the same memcached servers.
func (m *Metrics) ObserveClockSkew(skew time.Duration) {
	if skew < 0 {
		m.clockBehind.Inc()
		return
	}
	m.clockAhead.Inc()
}

// Recorder creates the observer for the requests of one API. The name of the API is a
// label, so there must be few names. Recorder must be called only once for each name.
func (m *Metrics) Recorder(name string) *Recorder {
	d := &Recorder{metrics: m, name: name, latency: m.latency.WithLabelValues(name)}
	for o := range engine.Operation(engine.Operations) {
		if o != engine.Take && o != engine.Hold {
			d.operations[o] = m.operations.WithLabelValues(name, o.String())
		}
	}
	d.badInput = m.refused.WithLabelValues(name, "bad_input")
	d.unknownPolicy = m.refused.WithLabelValues(name, "unknown_policy")
	d.hold = m.refused.WithLabelValues(name, "hold")
	d.policies.Store(&map[string]*policy{})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recorders = append(m.recorders, d)
	return d
}

// WithObserver returns a view of e whose requests are counted with the label api. It
// must be called only once for each name.
func (m *Metrics) WithObserver(e *engine.Engine, api string) *engine.Engine {
	var o engine.Observer = m.Recorder(api)
	if m.wrap != nil {
		o = m.wrap(o)
	}
	return e.WithObserver(o, m.every)
}

// Every returns the sampling interval for durations: one in so many requests is measured.
func (m *Metrics) Every() uint32 { return m.every }

// Recorder is the observer that counts the requests of one API.
type Recorder struct {
	metrics    *Metrics
	name       string
	latency    prometheus.Observer
	operations [engine.Operations]prometheus.Counter // nil for Take and Hold

	badInput, unknownPolicy, hold prometheus.Counter

	unnamed  atomic.Pointer[policy]             // counters of checks without a policy; nil before the first such check
	policies atomic.Pointer[map[string]*policy] // by name; the map is replaced, never changed
}

// shards is the number of counters for each outcome. Concurrent requests mostly use
// different counters, so that processors do not contend for a cache line.
const shards = 8

// policy holds the counters of one policy in one API. It is looked up once for each
// request.
type policy struct {
	shards [shards]shard
	log    *logs.Sampler // sampler for the log of denials; nil if Metrics has no [Denials]
}

// shard holds one counter for each outcome, padded to a whole cache line.
type shard struct {
	counts [outcomes]atomic.Uint64
	_      [64 - 8*outcomes]byte
}

func (p *policy) add(e *engine.Event, o Outcome) { p.shards[e.Shard%shards].counts[o].Add(1) }

func (p *policy) total(o Outcome) (sum uint64) {
	for i := range p.shards {
		sum += p.shards[i].counts[o].Load()
	}
	return sum
}

// decisions is a Prometheus collector of the counters of all policies in all APIs.
type decisions Metrics

var decisionsDesc = prometheus.NewDesc(namespace+"_decisions_total", "Check requests, by policy and outcome.",
	[]string{"api", "policy", "outcome"}, nil)

func (c *decisions) Describe(to chan<- *prometheus.Desc) { to <- decisionsDesc }

func (c *decisions) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	recorders := slices.Clone(c.recorders)
	c.mu.Unlock()
	for _, d := range recorders {
		for name, p := range *d.policies.Load() {
			for o := range outcomes {
				to <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(p.total(o)), d.name, name, o.String())
			}
		}
	}
}

var _ engine.Observer = (*Recorder)(nil)

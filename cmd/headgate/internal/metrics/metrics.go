// Package metrics is what operators see of the service: Prometheus metrics, the keys that are denied most, and a log of denials that a
// flood does not fill. It hears of every request as an [engine.Observer], one for each door, and decides nothing.
//
// No label holds a key, an address, or anything else that a stranger may choose, but as Envoy's incumbent has it, and then no more than so
// many: there are as many series as doors, policies and outcomes. docs/metrics.md lists them all.
package metrics

import (
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

// Others is the policy of what comes beyond the most policies that are counted apart.
const Others = "others"

// mostPolicies bounds the policies that are counted apart, of all configurations since the start.
const mostPolicies = 10_000

// everyNth is how many decisions there are to one whose time is measured, where a decision takes less time than to look at the clock.
const everyNth = 16

// Outcome is what came of a request, for a policy.
type Outcome uint8

// The outcomes.
const (
	Allowed      Outcome = iota
	Denied               // also by a local share while the store is away
	Shadow               // it would have been denied, had the policy counted
	StoreFailure         // the store could not be asked, and the policy says closed
	Degraded             // let pass without the store: the policy says open, or local and the share allowed it
	outcomes             // how many there are
)

// String is the outcome as a label.
func (o Outcome) String() string {
	return [outcomes]string{"allowed", "denied", "shadow", "undecided", "degraded"}[o]
}

// Options are settings of [New]. The zero value of each field is its default; nil means all defaults.
type Options struct {
	Version   string   // of this program, for headgate_build_info
	Store     string   // what the store is called there
	Networked bool     // the store is asked over a network: every decision's time is measured, else one in sixteen
	Denials   *Denials // hears of every denial; nil means nobody does
}

// Metrics are all metrics of a process. They are made with [New] and may be used concurrently.
type Metrics struct {
	registry *prometheus.Registry
	every    uint32
	denials  *Denials

	mu    sync.Mutex
	doors []*Recorder // in the order in which they were made

	operations *prometheus.CounterVec
	refused    *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	storeUp    prometheus.Gauge
	outages    *prometheus.CounterVec
	draining   prometheus.Gauge
}

// New makes them. opts may be nil.
func New(opts *Options) *Metrics {
	if opts == nil {
		opts = &Options{}
	}
	m := &Metrics{registry: prometheus.NewRegistry(), every: everyNth, denials: opts.Denials}
	if opts.Networked {
		m.every = 1
	}
	m.addDoors()
	m.addState()
	m.add(collectors.NewGoCollector())
	m.add(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := gauge("build_info", "Always 1: which program this is, and where it keeps its state.", "version", "goversion", "store")
	info.WithLabelValues(opts.Version, runtime.Version(), opts.Store).Set(1)
	m.add(info)
	if opts.Denials != nil {
		m.add(&notLogged{opts.Denials})
	}
	return m
}

// addDoors adds what the doors count.
func (m *Metrics) addDoors() {
	m.operations = counter("operations_total", "Requests to look, give back or forget.", "door", "verb")
	m.refused = counter("refused_total", "Requests that could not be asked of any store as they stood.", "door", "reason")
	m.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "decision_duration_seconds",
		Help:    "Time of a decision, with the store and without the door's protocol; of a store in memory, one in 16 is measured.",
		Buckets: []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1},
	}, []string{"door"})
	m.add((*decisions)(m), m.operations, m.refused, m.latency)
}

// addState adds what is true of the process.
func (m *Metrics) addState() {
	up, draining := gauge("store_up", "Whether the store is asked: 0 while it is away."), gauge("draining", "Whether this instance is going away.")
	m.storeUp, m.draining = up.WithLabelValues(), draining.WithLabelValues()
	m.storeUp.Set(1)
	m.draining.Set(0)
	m.outages = counter("store_outages_total", "How often the store went away, by what it failed of first.", "trouble")
	m.add(up, draining, m.outages)
}

const namespace = "headgate"

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// add registers collectors. Two of one name are a mistake in this program.
func (m *Metrics) add(all ...prometheus.Collector) { m.registry.MustRegister(all...) }

// mostScrapes bounds the scrapes that are answered at a time, each of which holds all metrics.
const mostScrapes = 10

// Handler answers with all metrics, in the formats that Prometheus reads. Of scrapes at a time those beyond ten get a 503.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: mostScrapes})
}

// Gatherer is what [Metrics.Handler] asks.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Draining says that this instance is going away.
func (m *Metrics) Draining() { m.draining.Set(1) }

// ObserveStore notes that the store went away, or is back.
func (m *Metrics) ObserveStore(e headgate.StoreEvent) {
	if !e.Unavailable {
		m.storeUp.Set(1)
		return
	}
	m.storeUp.Set(0)
	m.outages.WithLabelValues(e.Reason.String()).Inc()
}

// Door is the observer of one door, whose requests are counted under its name. It must be one of few, and each name be asked for once.
func (m *Metrics) Recorder(name string) *Recorder {
	d := &Recorder{metrics: m, name: name, latency: m.latency.WithLabelValues(name)}
	for verb := headgate.Peek; verb <= headgate.Reset; verb++ {
		d.operations[verb] = m.operations.WithLabelValues(name, verb.String())
	}
	d.badInput = m.refused.WithLabelValues(name, "bad_input")
	d.unknownPolicy = m.refused.WithLabelValues(name, "unknown_policy")
	d.policies.Store(&map[string]*policy{})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doors = append(m.doors, d)
	return d
}

// Observed is e with a door of this name as its observer.
func (m *Metrics) WithObserver(e *engine.Engine, door string) *engine.Engine {
	return e.WithObserver(m.Recorder(door), m.every)
}

// Door counts the requests of one door.
type Recorder struct {
	metrics    *Metrics
	name       string
	latency    prometheus.Observer
	operations [headgate.Reset + 1]prometheus.Counter // by verb; none of Take

	badInput, unknownPolicy prometheus.Counter

	unnamed  atomic.Pointer[policy]             // of checks that bring their own limit; nil before the first
	policies atomic.Pointer[map[string]*policy] // all, by name; replaced, never changed
}

// lanes are how many counters there are of one thing: requests that are decided at a time mostly count on different ones, so that
// no processor waits for another.
const lanes = 8

// policy is what is counted of one, at one door. It is found once for each request, and holds everything that is then counted up.
type policy struct {
	lanes [lanes]lane
	log   *logs.Sampler // of its denials; nil if nobody hears of them
}

// lane is one cache line.
type lane struct {
	counts [outcomes]atomic.Uint64
	_      [64 - 8*outcomes]byte
}

func (p *policy) add(e *engine.Event, o Outcome) { p.lanes[e.Shard%lanes].counts[o].Add(1) }

func (p *policy) total(o Outcome) (sum uint64) {
	for i := range p.lanes {
		sum += p.lanes[i].counts[o].Load()
	}
	return sum
}

// decisions collects what all doors count of all policies.
type decisions Metrics

var decisionsDesc = prometheus.NewDesc(namespace+"_decisions_total", "Requests to spend, by the policy they were under and what came of it.",
	[]string{"door", "policy", "outcome"}, nil)

func (c *decisions) Describe(to chan<- *prometheus.Desc) { to <- decisionsDesc }

func (c *decisions) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	doors := slices.Clone(c.doors)
	c.mu.Unlock()
	for _, d := range doors {
		for name, p := range *d.policies.Load() {
			for o := range outcomes {
				to <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(p.total(o)), d.name, name, o.String())
			}
		}
	}
}

var _ engine.Observer = (*Recorder)(nil)

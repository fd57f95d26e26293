package metrics

import (
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/service/engine"
)

// began is when the process did; moments are counted from there, in nanoseconds.
var began = time.Now()

func moment() int64 { return int64(time.Since(began)) }

// Begin is the moment, for a request whose time is measured. Which ones are is left to chance, so that no pattern hides.
func (d *Door) Begin() int64 {
	if d.metrics.every > 1 && rand.Uint32()%d.metrics.every != 0 {
		return 0
	}
	return moment()
}

// Observe counts a request. It allocates nothing, but for the first request of a policy and for a denial that is logged.
func (d *Door) Observe(e *engine.Event) {
	if e.Began != 0 {
		d.latency.Observe(float64(moment()-e.Began) / 1e9)
	}
	if e.Err != nil && d.refuse(engine.KindOf(e.Err)) {
		return
	}
	if e.Verb != headgate.Take {
		d.operations[e.Verb].Inc()
		return
	}
	if len(e.Rules) == 1 { // as it mostly is
		d.count(e, 0, 1)
	} else {
		d.countEach(e)
	}
	for i := range e.Shadows {
		d.countShadow(&e.Shadows[i])
	}
}

// refuse counts a request that made no sense; false if it did.
func (d *Door) refuse(kind engine.Kind) bool {
	switch kind {
	case engine.BadInput:
		d.badInput.Inc()
	case engine.UnknownPolicy:
		d.unknownPolicy.Inc()
	default:
		return false
	}
	return true
}

// countEach counts a request once for each of its policies: the limits of one stand beside each other.
func (d *Door) countEach(e *engine.Event) {
	for from := 0; from < len(e.Rules); {
		to := from + 1
		for to < len(e.Rules) && e.Rules[to].Policy == e.Rules[from].Policy {
			to++
		}
		d.count(e, from, to)
		from = to
	}
}

// count counts what the limits of one policy said.
func (d *Door) count(e *engine.Event, from, to int) {
	p := d.policy(e.Rules[from].Policy)
	outcome := Allowed
	for i := from; i < to && e.Err == nil; i++ {
		switch decision := &e.Decisions[i]; {
		case !decision.Allowed:
			p.counts[Denied].Inc()
			if p.log != nil {
				d.metrics.denials.add(d.name, e.Rules[i], e.Key(i), decision, p.log)
			}
			return
		case decision.Degraded != headgate.NoTrouble:
			outcome = Degraded
		}
	}
	if e.Err != nil {
		outcome = Undecided
	}
	p.counts[outcome].Inc()
}

// countShadow counts what a check that only watched would have answered.
func (d *Door) countShadow(w *engine.Watched) {
	outcome := Allowed
	switch {
	case w.Err != nil:
		outcome = Undecided
	case !w.Decision.Allowed:
		outcome = Shadow
	case w.Decision.Degraded != headgate.NoTrouble:
		outcome = Degraded
	}
	d.policy(w.Policy).counts[outcome].Inc()
}

// policy is what is counted of one.
func (d *Door) policy(name string) *policy {
	if p := (*d.policies.Load())[name]; p != nil {
		return p
	}
	return d.newPolicy(name)
}

func (d *Door) newPolicy(name string) *policy {
	for {
		known := d.policies.Load()
		if len(*known) >= mostPolicies {
			name = Others
		}
		if p := (*known)[name]; p != nil {
			return p
		}
		p := d.metrics.newPolicy(d.name, strings.ToValidUTF8(name, "_"))
		next := maps.Clone(*known)
		next[strings.Clone(name)] = p
		if d.policies.CompareAndSwap(known, &next) {
			return p
		}
	}
}

func (m *Metrics) newPolicy(door, name string) *policy {
	p := &policy{}
	for outcome := range outcomes {
		p.counts[outcome] = m.decisions.WithLabelValues(door, name, outcome.String())
	}
	if m.denials != nil {
		p.log = m.denials.sampler(name)
	}
	return p
}

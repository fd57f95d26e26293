package metrics

import (
	"maps"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// began is when the process did; moments are counted from there, in nanoseconds.
var began = time.Now()

func moment() int64 { return int64(time.Since(began)) }

// Begin is the moment, for a request whose time is measured.
func (d *Recorder) Begin() int64 { return moment() }

// Observe counts a request. It allocates nothing, but for the first request of a policy and for a denial that is logged.
func (d *Recorder) Observe(e *engine.Event) {
	if e.Began != 0 {
		d.latency.Observe(float64(moment()-e.Began) / 1e9)
	}
	if e.Err != nil && d.refuse(engine.ErrorKindOf(e.Err)) {
		return
	}
	if e.Verb != headgate.Take {
		d.operations[e.Verb].Inc()
		return
	}
	if len(e.Rules()) == 1 { // as it mostly is
		d.count(e, 0, 1)
	} else {
		d.countEach(e)
	}
	for i, shadows := 0, e.Shadows(); i < len(shadows); i++ {
		d.countShadow(e, i, &shadows[i])
	}
}

// refuse counts a request that made no sense; false if it did.
func (d *Recorder) refuse(kind engine.ErrorKind) bool {
	switch kind {
	case engine.InvalidRequest:
		d.badInput.Inc()
	case engine.UnknownPolicy:
		d.unknownPolicy.Inc()
	default:
		return false
	}
	return true
}

// countEach counts a request once for each of its policies: the limits of one stand beside each other.
func (d *Recorder) countEach(e *engine.Event) {
	rules := e.Rules()
	for from := 0; from < len(rules); {
		to := from + 1
		for to < len(rules) && rules[to].Policy == rules[from].Policy {
			to++
		}
		d.count(e, from, to)
		from = to
	}
}

// count counts what the limits of one policy said.
func (d *Recorder) count(e *engine.Event, from, to int) {
	p := d.policy(e.Rules()[from].Policy)
	if e.Err != nil {
		p.add(e, StoreFailure)
		return
	}
	outcome := Allowed
	decisions := e.Decisions()[from:to]
	for i := range decisions {
		switch decision := &decisions[i]; {
		case !decision.Allowed:
			p.add(e, Denied)
			if p.log != nil {
				d.metrics.denials.add(&denial{d.name, e.Rules()[from+i], e.Key(from + i), decision.RetryAfter, false}, p.log)
			}
			return
		case decision.Degraded != headgate.ReasonNone:
			outcome = Degraded
		}
	}
	p.add(e, outcome)
}

// countShadow counts what the check at a place of those that only watched would have answered; nobody asked them if the others could not be
// decided.
func (d *Recorder) countShadow(e *engine.Event, i int, w *engine.ShadowResult) {
	p := d.policy(w.Policy)
	switch {
	case e.Err != nil || w.Err != nil:
		p.add(e, StoreFailure)
	case w.DeniedBy != nil:
		p.add(e, Shadow)
		if p.log != nil {
			d.metrics.denials.add(&denial{d.name, w.DeniedBy, e.ShadowKey(i), w.Decision.RetryAfter, true}, p.log)
		}
	case w.Decision.Degraded != headgate.ReasonNone:
		p.add(e, Degraded)
	default:
		p.add(e, Allowed)
	}
}

// policy is what is counted of one.
func (d *Recorder) policy(name string) *policy {
	if p := d.unnamed.Load(); name == "" && p != nil {
		return p
	}
	if p := (*d.policies.Load())[name]; p != nil {
		return p
	}
	return d.newPolicy(name)
}

func (d *Recorder) newPolicy(name string) *policy {
	name = strings.ToValidUTF8(name, "_") // which labels must be, and policies of a file are
	for {
		known := d.policies.Load()
		if len(*known) >= mostPolicies {
			name = Others
		}
		if p := (*known)[name]; p != nil {
			return p
		}
		p := &policy{}
		if d.metrics.denials != nil {
			p.log = d.metrics.denials.sampler(name)
		}
		next := maps.Clone(*known)
		next[name] = p
		if d.policies.CompareAndSwap(known, &next) {
			if name == "" {
				d.unnamed.Store(p)
			}
			return p
		}
	}
}

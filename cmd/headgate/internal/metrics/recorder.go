package metrics

import (
	"maps"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// processStart is the time at which the process started.
var processStart = time.Now()

// monotonicNow returns the time since processStart, in nanoseconds.
func monotonicNow() int64 { return int64(time.Since(processStart)) }

// Begin returns the current time, as the start of a request whose duration is measured.
func (d *Recorder) Begin() int64 { return monotonicNow() }

// Observe counts a request. It allocates only for the first request under a policy and
// for a denial that is logged.
func (d *Recorder) Observe(e *engine.Event) {
	if e.Began != 0 {
		d.latency.Observe(float64(monotonicNow()-e.Began) / 1e9)
	}
	if e.Err != nil && d.countRefused(engine.ErrorKindOf(e.Err)) {
		return
	}
	if e.Operation != engine.Take && e.Operation != engine.Hold {
		d.operations[e.Operation].Inc()
		return
	}
	if e.Began != 0 && e.Err == nil && d.metrics.admitted != nil {
		d.countAdmitted(e)
	}
	if len(e.Rules()) == 1 { // the most frequent case
		d.count(e, 0, 1)
	} else {
		d.countEach(e)
	}
	for i, shadows := 0, e.Shadows(); i < len(shadows); i++ {
		d.countShadow(e, i, &shadows[i])
	}
}

// countRefused counts an error that is caused by the request. It returns false
// and counts nothing if kind is a store failure.
func (d *Recorder) countRefused(kind engine.ErrorKind) bool {
	switch kind {
	case engine.InvalidRequest:
		d.badInput.Inc()
	case engine.UnknownPolicy:
		d.unknownPolicy.Inc()
	case engine.UnknownHold, engine.ExpiredHold, engine.HoldConflict, engine.TooManyHolds:
		d.hold.Inc()
	default:
		return false
	}
	return true
}

// countEach counts a request once for each of its policies. It relies on the limits of
// a policy being adjacent in e.Rules.
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

// count counts the outcome of a request under one policy. The policy's limits have the
// indexes from, …, to-1 in e.Rules.
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
		case e.Denied(from + i):
			d.addDenial(e, from+i, p)
			return
		case decision.Degraded != headgate.ReasonNone:
			outcome = Degraded
		}
	}
	p.add(e, outcome)
}

// addDenial records that the limit with index i in e.Rules denied the request.
func (d *Recorder) addDenial(e *engine.Event, i int, p *policy) {
	one := denial{d.name, e.Rules()[i], nil, "", e.Key(i), e.Decisions()[i].RetryAfter, false}
	if check := e.Check(i); check != nil {
		one.reported, one.ruleName, one.shadow = check.Reported, check.Rule, check.Shadow
	}
	outcome := Denied
	if one.shadow {
		outcome = Shadow
	}
	p.add(e, outcome)
	if p.log != nil {
		d.metrics.denials.add(&one, p.log)
	}
}

// countShadow counts the outcome of w, the check that has index i in e.Shadows. If the
// enforced checks failed, there was no decision for w either.
func (d *Recorder) countShadow(e *engine.Event, i int, w *engine.ShadowResult) {
	p := d.policy(w.Policy)
	switch {
	case e.Err != nil || w.Err != nil:
		p.add(e, StoreFailure)
	case w.DeniedBy != nil:
		p.add(e, Shadow)
		if p.log != nil {
			d.metrics.denials.add(&denial{
				d.name, w.DeniedBy, nil, e.ShadowRuleName(i), e.ShadowKey(i), w.Decision.RetryAfter, true,
			}, p.log)
		}
	case w.Decision.Degraded != headgate.ReasonNone:
		p.add(e, Degraded)
	default:
		p.add(e, Allowed)
	}
}

// policy returns the counters of a policy, and creates them if necessary.
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
	// Labels must be valid UTF-8; names of policies in a configuration file always are.
	name = strings.ToValidUTF8(name, "_")
	for {
		known := d.policies.Load()
		if len(*known) >= maxPolicies {
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

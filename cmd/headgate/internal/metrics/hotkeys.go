package metrics

import (
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/activity"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// TopKey is a key that is denied often.
type TopKey struct {
	Policy  string `json:"policy"`  // empty for checks without a policy
	Key     string `json:"key"`     // “h:” and the keyed hash of policy and key; the key itself if TopKeys is set
	Denials uint64 `json:"denials"` // number of denials, in which older denials have less weight
	Error   uint64 `json:"error"`   // maximum by which Denials is too high
	Shadow  bool   `json:"shadow"`  // whether the last denial was in shadow mode
}

// Top returns the n keys that are denied most often, or fewer if there are fewer, in
// descending order of Denials minus Error.
func (d *Denials) Top(n int) []TopKey {
	top := []TopKey{} // not nil, which JSON would encode as null
	for _, k := range d.Denied() {
		if len(top) == n {
			break
		}
		top = append(top, TopKey{k.Policy, k.Key, k.Count, k.Error, k.Shadow})
	}
	return top
}

// Denied returns all keys that are kept, the most frequently denied key first. The
// field Key is the hash, or the key itself if TopKeys is set.
func (d *Denials) Denied() []activity.KeyCount { return d.shown(d.top.Keys(monotonicNow())) }

// shown sets the field Key of each entry to the text to show.
func (d *Denials) shown(all []activity.KeyCount) []activity.KeyCount {
	for i := range all {
		if !d.opts.TopKeys {
			all[i].Key = hashText(all[i].Hash)
		}
	}
	return all
}

// Recent returns at most n of the last denials, the latest first, and the number of
// denials that were not kept; see [activity.Denials]. Key is as in the result of Denied.
func (d *Denials) Recent(n int, policy *string) (last []activity.Denial, omitted uint64) {
	last, omitted = d.recent.Last(n, policy)
	for i := range last {
		if !d.opts.TopKeys {
			last[i].Key = hashText(last[i].Hash)
		}
	}
	return last, omitted
}

// AdmittedEveryNth is the sampling interval for the keys of requests that are admitted:
// counting the key of each would take longer than the decision.
const AdmittedEveryNth = 64

// Admitted returns all keys that are kept, the most frequently admitted key first. Its
// counts are estimates, because one in [AdmittedEveryNth] requests is counted.
func (m *Metrics) Admitted() []activity.KeyCount {
	if m.denials == nil {
		return nil
	}
	return m.denials.shown(m.admitted.Keys(monotonicNow()))
}

// countAdmitted counts the keys of a request that was admitted, for a part of the sampled
// requests. The low bits of the time at which a request began select the part randomly.
func (d *Recorder) countAdmitted(e *engine.Event) {
	m := d.metrics
	random := uint64(e.Began) * 0x9e3779b97f4a7c15 >> 32
	if random*AdmittedEveryNth >= uint64(m.every)<<32 || slices.ContainsFunc(e.Decisions(), func(d headgate.Decision) bool { return !d.Allowed }) {
		return
	}
	for i, r := range e.Rules() {
		if i > 0 && r.Policy == e.Rules()[i-1].Policy {
			continue // another limit of the same policy
		}
		hit := activity.Hit{Hash: m.denials.hash(r.Policy, e.Key(i)), Policy: r.Policy, Weight: AdmittedEveryNth}
		if m.denials.opts.TopKeys {
			hit.Key = e.Key(i)
		}
		m.admitted.Add(monotonicNow(), &hit)
	}
}

package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/audit"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/overrides"
)

// The bounds of a change of overrides.
const (
	maxOverrides = 1000 // in one request
	maxAudited   = 20   // overrides with an audit entry each; more have one together
)

// blockText is the text that clients may send for a limit of no units.
const blockText = "block"

// Override is an override in the store.
type Override struct {
	Policy  string    `json:"policy"`
	Target  string    `json:"target"`
	Limits  []string  `json:"limits"`
	Until   time.Time `json:"until,omitzero"`
	Reason  string    `json:"reason,omitempty"`
	Author  string    `json:"author,omitempty"`
	Created time.Time `json:"created"`
	Ignored string    `json:"ignored,omitempty"`
}

// Overrides are overrides in the store.
type Overrides struct {
	Overrides []Override `json:"overrides"`
	Total     *int       `json:"total,omitempty"` // only in a list: the number of all that match
}

// Removed is the result of a removal.
type Removed struct {
	Removed int `json:"removed"`
}

func (c *call) overrides() (any, error) {
	n, err := c.number("n", maxOverrides, maxOverrides)
	if err != nil {
		return nil, err
	}
	total := 0
	snapshot, out := c.Overrides.List(), Overrides{Overrides: []Override{}}
	ignored := reasons(snapshot.Ignored)
	policy, target := c.policyParameter(), c.query.Get("target")
	for i := range snapshot.Entries {
		e := &snapshot.Entries[i]
		if policy != nil && e.Policy != *policy || c.query.Has("target") && e.Target != target {
			continue
		}
		if total++; total <= n {
			out.Overrides = append(out.Overrides, overrideOf(e, ignored[e.ID()]))
		}
	}
	out.Total = &total
	return out, nil
}

// reasons returns why overrides have no effect.
func reasons(ignored []overrides.Ignored) map[overrides.ID]string {
	texts := make(map[overrides.ID]string, len(ignored))
	for _, i := range ignored {
		texts[i.ID] = engine.Reason(i.Err)
	}
	return texts
}

func overrideOf(e *overrides.Entry, ignored string) Override {
	return Override{e.Policy, e.Target, e.Limits, e.Until, e.Reason, e.Author, e.Created, ignored}
}

// setRequest is a request to set overrides.
type setRequest struct {
	Overrides []newOverride `json:"overrides"`
	Reason    string        `json:"reason"`
}

// newOverride is an override to be set.
type newOverride struct {
	Policy string     `json:"policy"`
	Target string     `json:"target"`
	Limits []string   `json:"limits"`
	Until  *time.Time `json:"until"`
	TTL    *string    `json:"ttl"`
	Reason string     `json:"reason"`
}

// entry converts an override. path is the beginning of the names of its fields.
func (o *newOverride) entry(path string, now time.Time) (e overrides.Entry, err error) {
	e = overrides.Entry{Policy: o.Policy, Target: o.Target, Limits: slices.Clone(o.Limits), Reason: o.Reason}
	for i, limit := range e.Limits {
		if strings.EqualFold(limit, blockText) {
			e.Limits[i] = "0/s"
		}
	}
	if len(o.Reason) > maxReasonBytes {
		return e, badRequest(path+".reason", "field %q has %d bytes; must be at most %d", path+".reason", len(o.Reason), maxReasonBytes)
	}
	switch {
	case o.Until != nil && o.TTL != nil:
		return e, badRequest(path+".ttl", "field %q is not allowed next to until; send one of them", path+".ttl")
	case o.Until != nil:
		e.Until = *o.Until
	case o.TTL != nil:
		ttl, err := time.ParseDuration(*o.TTL)
		if err != nil || ttl <= 0 {
			return e, badRequest(path+".ttl", "field %q is %.40q; must be a duration above 0, such as 30m or 2h", path+".ttl", *o.TTL)
		}
		e.Until = now.Add(ttl)
	}
	return e, nil
}

// checkChange returns an error if a request has too few or too many overrides, or if its
// reason is invalid.
func checkChange(n int, reason string) error {
	if n < 1 || n > maxOverrides {
		return badRequest("overrides", `field "overrides" has %d elements; must be 1 to %d`, n, maxOverrides)
	}
	return checkReason(reason)
}

func (c *call) setOverrides() (any, error) {
	in, err := decode[setRequest](c.body)
	if err != nil {
		return nil, err
	}
	if err := checkChange(len(in.Overrides), in.Reason); err != nil {
		return nil, err
	}
	entries, now := make([]overrides.Entry, len(in.Overrides)), time.Now()
	for i := range in.Overrides {
		if entries[i], err = in.Overrides[i].entry(fmt.Sprintf("overrides[%d]", i), now); err != nil {
			return nil, err
		}
	}
	before := c.limitsByID()
	saved, err := c.Overrides.Set(c.ctx, entries, overrides.Change{Author: c.client.Name, Reason: in.Reason})
	if err != nil {
		return nil, err
	}
	out, ignored := Overrides{Overrides: []Override{}}, reasons(c.Overrides.List().Ignored)
	for i := range saved {
		out.Overrides = append(out.Overrides, overrideOf(&saved[i], ignored[saved[i].ID()]))
	}
	c.recordOverrides("set override", saved, before, in.Reason)
	return out, nil
}

// limitsByID returns the overrides that apply now, as text.
func (c *call) limitsByID() map[overrides.ID]string {
	texts := make(map[overrides.ID]string)
	entries := c.Overrides.List().Entries
	for i := range entries {
		texts[entries[i].ID()] = limitsText(&entries[i])
	}
	return texts
}

// limitsText returns the limits of an override and its end.
func limitsText(e *overrides.Entry) string {
	text := strings.Join(e.Limits, ", ")
	if !e.Until.IsZero() {
		text += " until " + e.Until.UTC().Format(time.RFC3339)
	}
	return text
}

// recordOverrides adds changed overrides to the audit. before has the texts of the
// overrides that applied; it is nil for a removal.
func (c *call) recordOverrides(action string, changed []overrides.Entry, before map[overrides.ID]string, reason string) {
	if len(changed) > maxAudited {
		c.record(audit.Entry{Action: action, After: fmt.Sprintf("%d overrides", len(changed)), Reason: reason})
		return
	}
	entries := make([]audit.Entry, len(changed))
	for i := range changed {
		e := &changed[i]
		entries[i] = audit.Entry{Action: action, Policy: e.Policy, Target: e.Target, Before: before[e.ID()], After: limitsText(e), Reason: e.Reason}
		if key, ok := strings.CutPrefix(e.Target, engine.KeyOverride); ok {
			entries[i].Target, entries[i].Key = "key", c.shownKey(e.Policy, key)
		}
		if before == nil { // a removal
			entries[i].Before, entries[i].After, entries[i].Reason = limitsText(e), "", reason
		}
	}
	c.record(entries...)
}

// removeRequest is a request to remove overrides.
type removeRequest struct {
	Overrides []overrides.ID `json:"overrides"`
	Reason    string         `json:"reason"`
}

func (c *call) removeOverrides() (any, error) {
	in, err := decode[removeRequest](c.body)
	if err != nil {
		return nil, err
	}
	if err := checkChange(len(in.Overrides), in.Reason); err != nil {
		return nil, err
	}
	for i, id := range in.Overrides {
		if id.Policy == "" || id.Target == "" {
			path := fmt.Sprintf("overrides[%d]", i)
			return nil, badRequest(path, "field %q requires policy and target", path)
		}
	}
	removed, err := c.Overrides.Remove(c.ctx, in.Overrides, overrides.Change{Author: c.client.Name, Reason: in.Reason})
	if err != nil {
		return nil, err
	}
	if len(removed) > 0 {
		c.recordOverrides("remove override", removed, nil, in.Reason)
	}
	return Removed{len(removed)}, nil
}

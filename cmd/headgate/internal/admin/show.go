package admin

import (
	"slices"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/activity"
	"github.com/headgate/headgate/cmd/headgate/internal/audit"
)

// The numbers of entries that lists have.
const (
	defaultHotKeys = 20
	defaultEntries = 100
	maxEntries     = 1000
)

func (c *call) status() (any, error) {
	s := c.Status(c.ctx)
	s.Caller.Name, s.Keys = c.client.Name, "hash"
	if c.ShowKeys {
		s.Keys = "clear"
	}
	for _, scope := range c.client.Scopes {
		s.Caller.Scopes = append(s.Caller.Scopes, string(scope))
	}
	return s, nil
}

func (c *call) policies() (any, error) { return c.Policies(), nil }

func (c *call) config() (any, error) { return c.Config() }

func (c *call) history() (any, error) { return c.History(), nil }

// HotKeys are the keys that occur most often.
type HotKeys struct {
	Admitted []HotKey `json:"admitted"`
	Denied   []HotKey `json:"denied"`
}

// HotKey is a key that occurs often.
type HotKey struct {
	Policy    string  `json:"policy"`
	Key       string  `json:"key"`
	Count     uint64  `json:"count"`
	Error     uint64  `json:"error"`
	PerSecond float64 `json:"per_second"`
	Shadow    bool    `json:"shadow"`
}

func (c *call) hotKeys() (any, error) {
	n, err := c.number("n", defaultHotKeys, maxEntries)
	if err != nil {
		return nil, err
	}
	return HotKeys{c.hottest(c.Admitted(), n), c.hottest(c.Denied(), n)}, nil
}

// hottest returns the n keys with the highest rates.
func (c *call) hottest(all []activity.KeyCount, n int) []HotKey {
	policy, hot := c.policyParameter(), []HotKey{}
	slices.SortStableFunc(all, func(a, b activity.KeyCount) int {
		switch {
		case a.PerSecond > b.PerSecond:
			return -1
		case a.PerSecond < b.PerSecond:
			return 1
		}
		return 0
	})
	for _, k := range all {
		if len(hot) < n && (policy == nil || k.Policy == *policy) {
			hot = append(hot, HotKey{k.Policy, k.Key, k.Count, k.Error, k.PerSecond, k.Shadow})
		}
	}
	return hot
}

// Denials are recent denials.
type Denials struct {
	Denials []Denial `json:"denials"`
	Omitted uint64   `json:"omitted"`
}

// Denial is one denial.
type Denial struct {
	Time       time.Time `json:"time"`
	API        string    `json:"api"`
	Policy     string    `json:"policy"`
	Rule       string    `json:"rule"`
	Limit      string    `json:"limit"`
	Key        string    `json:"key"`
	RetryAfter int64     `json:"retry_after_ms"`
	Shadow     bool      `json:"shadow"`
}

func (c *call) denials() (any, error) {
	n, err := c.number("n", defaultEntries, maxEntries)
	if err != nil {
		return nil, err
	}
	last, omitted := c.Denials(n, c.policyParameter())
	out := Denials{[]Denial{}, omitted}
	for _, d := range last {
		out.Denials = append(out.Denials, Denial{d.Time.UTC(), d.API, d.Policy, d.Rule, d.Limit, d.Key, millis(d.RetryAfter), d.Shadow})
	}
	return out, nil
}

// Timeline has time series, the earliest slot first.
type Timeline struct {
	From     time.Time         `json:"from"`
	Now      time.Time         `json:"now"`
	StepMS   int64             `json:"step_ms"`
	Slots    int               `json:"slots"`
	Policies map[string]Series `json:"policies"`
	Latency  Latency           `json:"latency"`
}

// Series has the requests of one policy by outcome, one number for each slot.
type Series struct {
	Allowed   []uint32 `json:"allowed"`
	Denied    []uint32 `json:"denied"`
	Shadow    []uint32 `json:"shadow"`
	Undecided []uint32 `json:"undecided"`
	Degraded  []uint32 `json:"degraded"`
}

// Latency has the durations of decisions, one number for each slot.
type Latency struct {
	Count []uint64  `json:"count"`
	P50   []float64 `json:"p50_us"`
	P99   []float64 `json:"p99_us"`
}

func (c *call) timeline() (any, error) {
	resolution := activity.Fine
	switch span := c.query.Get("span"); span {
	case "", "1h":
	case "5m":
		resolution = activity.Live
	case "12h":
		resolution = activity.Coarse
	default:
		return nil, badRequest("span", "the query parameter span is %.40q; must be 5m, 1h or 12h", span)
	}
	var from time.Time
	if text := c.query.Get("from"); text != "" {
		var err error
		if from, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, badRequest("from", "the query parameter from is %.40q; must be a time such as 2026-01-31T12:00:00Z", text)
		}
	}
	now := time.Now()
	s := c.API.Timeline.Series(now, resolution, from)
	out := Timeline{From: s.From, Now: now.UTC(), StepMS: s.Step.Milliseconds(), Slots: len(s.Latency), Policies: make(map[string]Series, len(s.Policies))}
	for name, o := range s.Policies {
		out.Policies[name] = Series{o[0], o[1], o[2], o[3], o[4]}
	}
	for _, l := range s.Latency {
		out.Latency.Count = append(out.Latency.Count, l.Count)
		out.Latency.P50 = append(out.Latency.P50, micros(l.P50))
		out.Latency.P99 = append(out.Latency.P99, micros(l.P99))
	}
	return out, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Audit has changes, the latest first.
type Audit struct {
	Entries []audit.Entry `json:"entries"`
	Next    string        `json:"next,omitempty"`
}

func (c *call) audit() (any, error) {
	n, err := c.number("n", defaultEntries, maxEntries)
	if err != nil {
		return nil, err
	}
	entries, more, err := c.Audit.List(c.ctx, c.query.Get("before"), n)
	if err != nil {
		return nil, err
	}
	out := Audit{Entries: entries}
	if out.Entries == nil {
		out.Entries = []audit.Entry{}
	}
	if more {
		out.Next = entries[len(entries)-1].ID
	}
	return out, nil
}

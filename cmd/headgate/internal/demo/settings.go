package demo

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
)

// Settings are what is set on a page.
type Settings struct {
	Rate     int64              `json:"rate"`      // units in each period
	PeriodMS int64              `json:"period_ms"` // in milliseconds
	Burst    int64              `json:"burst"`     // units that a bucket holds
	Queue    int64              `json:"queue"`     // units that wait in the leaky bucket
	Cost     int64              `json:"cost"`      // units of each request; 0 only asks
	Key      string             `json:"key"`       // whose budget
	Dialect  httpfields.Dialect `json:"dialect"`   // of the header fields
}

// Bounds on settings. They are tighter than a limit's own: a sliding log keeps an entry for each unit.
const (
	maxUnits    = 10_000
	minPeriodMS = 100
	maxPeriodMS = 60 * 60 * 1000
	maxKeyBytes = 128
)

func defaultSettings() Settings {
	return Settings{Rate: 10, PeriodMS: 5000, Burst: 10, Queue: 9, Cost: 1, Dialect: httpfields.IETF}
}

// dialects are those that the page offers, in its order.
func dialects() []httpfields.Dialect {
	return []httpfields.Dialect{
		httpfields.IETF, httpfields.Draft07, httpfields.Draft06, httpfields.Draft03,
		httpfields.XRateLimit, httpfields.XRateLimitEpoch, httpfields.GitHub, httpfields.Off,
	}
}

func (s Settings) validate() error {
	for _, n := range []struct {
		field       string
		value       int64
		least, most int64
	}{
		{"rate", s.Rate, 1, maxUnits},
		{"burst", s.Burst, 1, maxUnits},
		{"queue", s.Queue, 0, maxUnits},
		{"cost", s.Cost, 0, maxUnits},
	} {
		if n.value < n.least || n.value > n.most {
			return refuse(n.field, "%s is %d; accepted are %d to %d", n.field, n.value, n.least, n.most)
		}
	}
	if s.PeriodMS < minPeriodMS || s.PeriodMS > maxPeriodMS {
		return refuse("period_ms", "the period is %s s; accepted are %s to %s",
			seconds(s.PeriodMS), seconds(minPeriodMS), seconds(maxPeriodMS))
	}
	if len(s.Key) > maxKeyBytes || !utf8.ValidString(s.Key) || strings.ContainsFunc(s.Key, unicode.IsControl) {
		return refuse("key", "the key is longer than %d bytes, or no plain text", maxKeyBytes)
	}
	if !slices.Contains(dialects(), s.Dialect) {
		return refuse("dialect", "there is no such dialect of header fields")
	}
	return nil
}

// seconds is ms as people read it.
func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) }

// limit is the settings as a limit for one algorithm: each takes what it uses.
func (s Settings) limit(a headgate.Algorithm) headgate.Limit {
	l := headgate.Limit{Rate: s.Rate, Period: time.Duration(s.PeriodMS) * time.Millisecond}
	switch {
	case a.Queues() && s.Queue == 0:
		l.Burst = 1
	case a.Queues():
		l.Queue = s.Queue
	case !a.Windowed():
		l.Burst = s.Burst
	}
	return l
}

// policy has one name whatever the limit is, so that a changed limit keeps what was spent.
func (s Settings) policy(a headgate.Algorithm) headgate.Policy {
	return headgate.Policy{Name: policyName, Limits: []headgate.Limit{s.limit(a)}, Algorithm: a}
}

// span is how much time the charts show: three periods, if that can be watched.
func (s Settings) span() time.Duration {
	return min(max(3*time.Duration(s.PeriodMS)*time.Millisecond, 6*time.Second), time.Minute)
}

// policyName is what the page's policy is called, in the store too.
const policyName = "demo"

// Scope is the [headgate.Rule] scope of the page's limits: who binds a rule under it, over the same store, counts on what the
// page shows.
const Scope = "policy:0:" + policyName

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

// Settings are the values that the user has entered on a page.
type Settings struct {
	Rate     int64              `json:"rate"`      // units for each period
	PeriodMS int64              `json:"period_ms"` // in milliseconds
	Burst    int64              `json:"burst"`     // capacity of a bucket in units
	Queue    int64              `json:"queue"`     // maximum number of units in the queue of the leaky bucket
	Cost     int64              `json:"cost"`      // cost of a request in units; 0 peeks
	Key      string             `json:"key"`       // key of the requests
	Dialect  httpfields.Dialect `json:"dialect"`   // dialect of the rate limit header fields
}

// Limits on the settings. They are lower than the limits of [headgate.Limit], because a
// sliding log stores an entry for each unit.
const (
	maxUnits    = 10_000
	minPeriodMS = 100
	maxPeriodMS = 60 * 60 * 1000
	maxKeyBytes = 128
)

func (s Settings) period() time.Duration { return time.Duration(s.PeriodMS) * time.Millisecond }

// defaultSettings returns the settings of a new page. The buckets have a larger burst
// than the rate, so that a burst shows how they differ from windows.
func defaultSettings() Settings {
	return Settings{Rate: 10, PeriodMS: 4000, Burst: 20, Queue: 9, Cost: 1, Dialect: httpfields.IETF}
}

// dialects returns the dialects that the page offers, in the order of the page.
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
			return refuse(n.field, "%s is %d; must be %d to %d", n.field, n.value, n.least, n.most)
		}
	}
	if s.PeriodMS < minPeriodMS || s.PeriodMS > maxPeriodMS {
		return refuse("period_ms", "the period is %s s; must be %s to %s",
			seconds(s.PeriodMS), seconds(minPeriodMS), seconds(maxPeriodMS))
	}
	if len(s.Key) > maxKeyBytes || !utf8.ValidString(s.Key) || strings.ContainsFunc(s.Key, unicode.IsControl) {
		return refuse("key", "the key must be plain text of at most %d bytes", maxKeyBytes)
	}
	if !slices.Contains(dialects(), s.Dialect) {
		return refuse("dialect", "unknown dialect of header fields")
	}
	return nil
}

// seconds formats a number of milliseconds as seconds, for an error message.
func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) }

// limit returns the settings as a limit for one algorithm. It sets only the fields that
// the algorithm uses.
func (s Settings) limit(a headgate.Algorithm) headgate.Limit {
	l := headgate.Limit{Rate: s.Rate, Period: s.period()}
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

// policy returns the settings as a policy. Its name is the same for all settings, so
// that spent units stay spent when the limit changes.
func (s Settings) policy(a headgate.Algorithm) headgate.Policy {
	return headgate.Policy{Name: policyName, Limits: []headgate.Limit{s.limit(a)}, Algorithm: a}
}

// span returns the time span of the charts: three periods, but at least 6 s and at most
// 1 min.
func (s Settings) span() time.Duration {
	return min(max(3*s.period(), 6*time.Second), time.Minute)
}

// policyName is the name of the page's policy. It is also part of the keys in the
// store.
const policyName = "demo"

// Scope is the field Scope of the [headgate.Rule] for the page's limits. A rule with
// this scope on the same store shares the state of the page.
const Scope = "policy:0:" + policyName

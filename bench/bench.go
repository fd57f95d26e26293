// Package bench runs Headgate's embedded store and other Go rate limiters under the
// same load.
//
// Each limiter is adapted to [Limiter] in its own file. README.md documents what is
// compared and what cannot be compared.
package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limiter is one rate limiter configured with one limit. The benchmark loop calls Allow
// concurrently.
type Limiter interface {
	// Allow requests one token of key and reports whether it was allowed. The caller
	// overwrites the text of key after the call. An implementation may retain the text
	// only on the first call for a key.
	Allow(key string) bool
	// Drain spends all tokens of key, so that later calls of Allow deny it.
	Drain(key string)
}

// Limit is the limit of every key: a burst of Burst tokens, refilled with Count tokens
// every Per.
type Limit struct {
	Count int
	Per   time.Duration
	Burst int
}

// Window returns the time in which Burst tokens are refilled. A limiter that counts in
// windows allows Burst requests in each of them.
func (l Limit) Window() time.Duration {
	return time.Duration(float64(l.Per) * float64(l.Burst) / float64(l.Count))
}

// PerSecond returns the number of tokens refilled per second.
func (l Limit) PerSecond() float64 { return float64(l.Count) / l.Per.Seconds() }

// Budget is a limit under which no key runs out of tokens, and no drained key recovers,
// during a measurement: one token is refilled in about eight hours. The refill time of
// a token is not a whole number of microseconds, so no limiter benefits from round
// numbers.
var Budget = Limit{Count: 7, Per: 57 * time.Hour, Burst: 100_000}

// Rate returns a limit of perSecond tokens a second for measurements on a single key.
// Its burst equals 100 µs of refill, so the tokens available when a round starts do not
// affect the result.
func Rate(perSecond int) Limit {
	return Limit{Count: max(1, perSecond), Per: time.Second, Burst: max(1, perSecond/10_000)}
}

// Peer is a limiter that can be measured.
type Peer struct {
	// Name identifies the peer in tables and flags.
	Name string
	// New returns a limiter for the given number of keys, all of them in use.
	New func(limit Limit, keys int) (Limiter, error)
	// KeepsText is true if the limiter retains the text of a key on first use. The
	// caller must then pass a copy of the text.
	KeepsText bool
	// OneKey is true if the limiter has no map of keys and limits a single one.
	OneKey bool
	// NoLimiter is true for a row that decides nothing and measures the benchmark loop
	// itself.
	NoLimiter bool
}

// Ours is the name of the row that all other rows are compared with.
const Ours = "headgate"

// Peers returns all peers that can be measured, in the order of the tables.
func Peers() []Peer {
	return []Peer{
		{Name: Ours, New: newHeadgate},
		{Name: "x/time/rate", New: newXTime, KeepsText: true},
		{Name: "sethvargo", New: newSethvargo, KeepsText: true},
		{Name: "ulule", New: newUlule},
		{Name: "throttled", New: newThrottled, KeepsText: true},
		{Name: "httprate", New: newHTTPRate},
		{Name: "tollbooth", New: newTollbooth, KeepsText: true},
		{Name: "uber", New: newUber, OneKey: true},
		{Name: "key alone", New: newKeyAlone, NoLimiter: true},
	}
}

// ParseNumbers parses a flag's value: integers above 0, separated by commas.
func ParseNumbers(flag, list string) ([]int, error) {
	var found []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-%s=%s: %q is not an integer above 0", flag, list, text)
		}
		found = append(found, n)
	}
	return found, nil
}

// Named returns the peers with the given comma-separated names, in the order of
// [Peers]. It returns all peers if names is empty.
func Named(names string) ([]Peer, error) {
	if names == "" {
		return Peers(), nil
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		wanted[strings.TrimSpace(name)] = true
	}
	var found []Peer
	var known []string
	for _, p := range Peers() {
		known = append(known, p.Name)
		if wanted[p.Name] {
			found = append(found, p)
			delete(wanted, p.Name)
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("bench: unknown row %q; must be one of %s", name, strings.Join(known, ", "))
	}
	return found, nil
}

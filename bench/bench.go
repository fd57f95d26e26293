// Package bench measures Headgate's embedded store and other Go rate limiters under the
// same load.
//
// Each limiter has a file with an adapter to [Limiter]. README.md documents what is
// compared and what cannot be compared.
package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limiter is a rate limiter with one limit for every key. The benchmark calls Allow
// concurrently.
type Limiter interface {
	// Allow takes one token of key and reports whether the take was allowed. The caller
	// overwrites the memory of key after the call. An implementation may retain key
	// only if this is the first call for that key; see Peer.KeepsText.
	Allow(key string) bool
	// Drain spends all tokens of key, so that later calls of Allow for key return
	// false.
	Drain(key string)
}

// Limit is the limit of every key: a bucket of Burst tokens, to which Count tokens are
// added in every period Per.
type Limit struct {
	Count int
	Per   time.Duration
	Burst int
}

// Window returns the time in which Burst tokens are refilled. A limiter that counts in
// windows uses this window and allows Burst requests in each window.
func (l Limit) Window() time.Duration {
	return time.Duration(float64(l.Per) * float64(l.Burst) / float64(l.Count))
}

// PerSecond returns the number of tokens refilled per second.
func (l Limit) PerSecond() float64 { return float64(l.Count) / l.Per.Seconds() }

// Budget is a limit under which no key runs out of tokens during a measurement, and no
// drained key recovers, because one token is refilled in about eight hours. The refill
// time of a token is not a whole number of microseconds, so that no limiter benefits
// from a round number.
var Budget = Limit{Count: 7, Per: 57 * time.Hour, Burst: 100_000}

// Rate returns a limit of perSecond tokens per second, for measurements on a single
// key. The burst is only what is refilled in 100 µs, so that the tokens available at
// the start of a round do not affect the result.
func Rate(perSecond int) Limit {
	return Limit{Count: max(1, perSecond), Per: time.Second, Burst: max(1, perSecond/10_000)}
}

// Peer describes how to create one of the limiters that are compared.
type Peer struct {
	// Name identifies the limiter in tables and flags.
	Name string
	// New returns a limiter that has room for the given number of keys, all of which
	// will be used.
	New func(limit Limit, keys int) (Limiter, error)
	// KeepsText is true if the limiter retains the text of a key when the key is first
	// used. The benchmark must then pass a copy of the text.
	KeepsText bool
	// OneKey is true if the limiter has no map of keys, so that it can limit only a
	// single key.
	OneKey bool
	// NoLimiter is true for a peer that decides nothing. Its row shows the cost of the
	// benchmark loop itself.
	NoLimiter bool
}

// Ours is the name of the peer with which all other peers are compared.
const Ours = "headgate"

// Peers returns all peers, in the order of the tables.
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

// ParseNumbers parses list, the value of a flag: integers above 0, separated by commas.
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

// Named returns the peers with the given names, which are separated by commas. The
// result has the order of [Peers]. If names is empty, it contains all peers.
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

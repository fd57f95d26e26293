// Package bench puts Headgate's embedded store and other Go limiters to the same work.
//
// Every limiter stands in a file of its own behind [Limiter]. What is compared, and what cannot be, is told in README.md.
package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limiter is one limiter under one limit, as the harness drives it. Allow may be called concurrently.
type Limiter interface {
	// Allow asks for one unit of key and spends it if it is there. The text of key is overwritten after the call: only a key that
	// is asked for the first time may be kept.
	Allow(key string) bool
	// Drain spends all that key has, so that it is denied from now on.
	Drain(key string)
}

// Limit is what every key gets: Burst units at once, and Count units more in every Per.
type Limit struct {
	Count int
	Per   time.Duration
	Burst int
}

// Window is the time in which Burst units come back: what a limiter that counts in windows grants Burst units in.
func (l Limit) Window() time.Duration {
	return time.Duration(float64(l.Per) * float64(l.Burst) / float64(l.Count))
}

// PerSecond is the rate at which units come back.
func (l Limit) PerSecond() float64 { return float64(l.Count) / l.Per.Seconds() }

// Budget is a limit under which a key neither runs dry nor, once drained, recovers while it is measured: one unit comes back in
// eight hours. Its unit is not a whole number of microseconds, so nothing in it is conveniently round.
var Budget = Limit{Count: 7, Per: 57 * time.Hour, Burst: 100_000}

// Rate is a limit of perSecond units a second for the measurements on a single key, with 100 µs worth of burst: little enough
// that what a round begins with does not count.
func Rate(perSecond int) Limit {
	return Limit{Count: max(1, perSecond), Per: time.Second, Burst: max(1, perSecond/10_000)}
}

// Peer is a limiter that can be measured.
type Peer struct {
	// Name is what tables and flags call it.
	Name string
	// New makes it for a number of keys that are all in use.
	New func(limit Limit, keys int) (Limiter, error)
	// KeepsText says that it keeps the text of a key that it sees for the first time, so such a key needs a text of its own.
	KeepsText bool
	// OneKey says that it limits a single key: it has no map of them.
	OneKey bool
	// NoLimiter says that it is no limiter but a floor: what the harness itself costs.
	NoLimiter bool
}

// Ours is the name of the row that the others are compared with.
const Ours = "headgate"

// Peers lists everything that is measured, in the order of the tables.
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

// ParseNumbers parses the value of a flag: whole numbers above 0, separated by commas.
func ParseNumbers(flag, list string) ([]int, error) {
	var found []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-%s=%s: %q is no whole number above 0", flag, list, text)
		}
		found = append(found, n)
	}
	return found, nil
}

// Named are the peers with the given names, separated by commas, in the order of [Peers]; all for "".
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
		return nil, fmt.Errorf("bench: unknown row %q; there are %s", name, strings.Join(known, ", "))
	}
	return found, nil
}

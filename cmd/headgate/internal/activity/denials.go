package activity

import (
	"sync"
	"time"
)

// The bounds of [Denials].
const (
	MaxDenials          = 1000
	maxDenialsPerSecond = 1000
)

// Denial is the denial of one request by one limit.
type Denial struct {
	Time       time.Time
	API        string
	Policy     string // empty for a check without a policy
	Rule       string // name of the Envoy rule; empty for other limits
	Limit      string // text of the limit
	Hash       uint64 // of policy and key
	Key        string // empty unless the text of keys is kept
	RetryAfter time.Duration
	Shadow     bool // whether the policy is in shadow mode, so that the request was not really denied
}

// Denials keeps the last [MaxDenials] denials. It records at most 1,000 of each second,
// so that a flood does not slow the decisions. The zero value is ready to use, and may be
// used concurrently.
type Denials struct {
	mu      sync.Mutex
	ring    []Denial
	next    int // index of the next denial in ring
	second  int64
	inOne   int // denials recorded in that second
	omitted uint64
}

// Add records a denial. The strings of d are retained.
func (l *Denials) Add(d *Denial) {
	second := d.Time.Unix()
	l.mu.Lock()
	defer l.mu.Unlock()
	if second != l.second {
		l.second, l.inOne = second, 0
	}
	if l.inOne == maxDenialsPerSecond {
		l.omitted++
		return
	}
	l.inOne++
	if len(l.ring) < MaxDenials {
		l.ring = append(l.ring, *d)
		return
	}
	l.ring[l.next] = *d
	l.next = (l.next + 1) % MaxDenials
}

// Last returns at most n denials, the latest first, and the number of denials since the
// start that were not recorded. If policy is not nil, it returns only those of this
// policy.
func (l *Denials) Last(n int, policy *string) (last []Denial, omitted uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.ring {
		d := &l.ring[(l.next+2*len(l.ring)-1-i)%len(l.ring)]
		if len(last) == n {
			break
		}
		if policy == nil || d.Policy == *policy {
			last = append(last, *d)
		}
	}
	return last, l.omitted
}

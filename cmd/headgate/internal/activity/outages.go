package activity

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// The bounds of [Outages].
const (
	maxOutageEvents = 50
	maxNodes        = 100
)

// Outage is a node of the store that is unavailable: its circuit breaker is open.
type Outage struct {
	Node   string // empty if the store does not name its nodes
	Reason string
	Since  time.Time
}

// OutageEvent is a change of the availability of a node.
type OutageEvent struct {
	Time      time.Time
	Node      string
	Available bool
	Reason    string // empty if the node is available again
}

// Outages records which nodes of the store are unavailable, and the last 50 changes. It
// is a [headgate.StoreObserver]. The zero value is ready to use, and may be used
// concurrently.
type Outages struct {
	mu     sync.Mutex
	nodes  map[string]Outage
	events []OutageEvent // the latest last
}

// ObserveStore records a change.
func (o *Outages) ObserveStore(e headgate.StoreEvent) { o.observe(e, time.Now()) }

func (o *Outages) observe(e headgate.StoreEvent, now time.Time) {
	reason := ""
	if e.Unavailable {
		reason = e.Reason.String()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.nodes == nil {
		o.nodes = make(map[string]Outage)
	}
	if !e.Unavailable {
		delete(o.nodes, e.Node)
	} else if len(o.nodes) < maxNodes {
		o.nodes[e.Node] = Outage{e.Node, reason, now}
	}
	if len(o.events) == maxOutageEvents {
		o.events = slices.Delete(o.events, 0, 1)
	}
	o.events = append(o.events, OutageEvent{now, e.Node, !e.Unavailable, reason})
}

// Unavailable returns the nodes that are unavailable, by name.
func (o *Outages) Unavailable() (nodes []Outage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.nodes {
		nodes = append(nodes, n)
	}
	slices.SortStableFunc(nodes, func(a, b Outage) int { return cmp.Or(strings.Compare(a.Node, b.Node), a.Since.Compare(b.Since)) })
	return nodes
}

// Events returns the last changes, the latest first.
func (o *Outages) Events() []OutageEvent {
	o.mu.Lock()
	defer o.mu.Unlock()
	events := slices.Clone(o.events)
	slices.Reverse(events)
	return events
}

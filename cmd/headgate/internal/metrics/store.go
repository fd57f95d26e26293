package metrics

import (
	"sync"

	"github.com/headgate/headgate"
)

// maxNodeLabels is the maximum number of nodes with a label of their own. Further nodes
// have the label others.
const maxNodeLabels = 100

// storeState contains the nodes of the store that have failed since the start. A store
// that does not name its nodes has only the node "".
type storeState struct {
	mu          sync.Mutex
	unavailable int             // number of nodes, including the node ""
	named       int             // number of unavailable nodes with a name
	labels      map[string]bool // nodes with a label of their own
}

// ObserveStore records that the store, or one of its nodes, became unavailable or that
// it recovered.
func (m *Metrics) ObserveStore(e headgate.StoreEvent) {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	change := -1
	if e.Unavailable {
		change = 1
		m.outages.WithLabelValues(e.Reason.String()).Inc()
	}
	m.store.unavailable += change
	m.storeUp.Set(1)
	if m.store.unavailable > 0 {
		m.storeUp.Set(0)
	}
	if e.Node != "" {
		m.store.named += change
		m.nodeDown.WithLabelValues(m.store.label(e.Node)).Add(float64(change))
	}
}

func (s *storeState) label(node string) string {
	if len(s.labels) >= maxNodeLabels && !s.labels[node] {
		return "others"
	}
	if s.labels == nil {
		s.labels = map[string]bool{}
	}
	s.labels[node] = true
	return node
}

// NodesUnavailable returns the number of nodes of the store that are unavailable. It is 0
// if the store does not name its nodes.
func (m *Metrics) NodesUnavailable() int {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	return m.store.named
}

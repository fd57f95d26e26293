package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// SlotLister is an optional interface of a [Client] of a cluster. With it the store knows
// the node of each key: it batches the calls to each node separately, and package
// fallback keeps a circuit breaker for each node. Without it, a node that does not answer
// may delay or refuse keys of other nodes.
type SlotLister interface {
	// Slots returns the nodes that serve the hash slots, according to any node that
	// answers. It must not wait for a node that does not answer if another one does.
	Slots(ctx context.Context) ([]SlotRange, error)
}

// SlotRange is a range of hash slots that one node of a cluster serves.
type SlotRange struct {
	First, Last int    // 0 to 16383, inclusive
	Node        string // address of the node: host:port
}

const (
	slotCount = 1 << 14

	// maxNodes is the maximum number of nodes that the store distinguishes. Redis
	// recommends at most 1000.
	maxNodes = 1024

	// topologyTTL is the time after which the topology is read again.
	topologyTTL = 10 * time.Second

	// minTopologyAge is the minimum age of the topology for reading it again after a
	// failed call.
	minTopologyAge = 100 * time.Millisecond
)

// topology is the distribution of the hash slots among the nodes of a cluster. It is
// replaced, never changed.
type topology struct {
	owners [slotCount]uint16 // index in nodes, plus 1; 0 if no node serves the slot
	nodes  []*clusterNode
}

// clusterNode is a node of a cluster.
type clusterNode struct {
	name    string // address
	batcher batcher
}

// of returns the node that serves a slot. It returns nil if it is unknown.
func (t *topology) of(slot uint16) *clusterNode {
	if t == nil || t.owners[slot] == 0 {
		return nil
	}
	return t.nodes[t.owners[slot]-1]
}

// next returns the topology with these ranges. Nodes that t contains keep their
// batchers. A node of t that serves no slot any more is kept while calls to it are in
// progress.
func (t *topology) next(s *Store, ranges []SlotRange) *topology {
	next := &topology{}
	known := map[string]*clusterNode{}
	if t != nil {
		for _, n := range t.nodes {
			known[n.name] = n
		}
	}
	index := map[string]uint16{}
	add := func(n *clusterNode) uint16 {
		if len(next.nodes) >= maxNodes {
			return 0
		}
		next.nodes = append(next.nodes, n)
		index[n.name] = uint16(len(next.nodes))
		return index[n.name]
	}
	for _, r := range ranges {
		owner, added := index[r.Node]
		if !added {
			n := known[r.Node]
			if n == nil {
				n = &clusterNode{name: r.Node}
				n.batcher.store = s
			}
			owner = add(n)
		}
		for slot := max(r.First, 0); slot <= min(r.Last, slotCount-1); slot++ {
			next.owners[slot] = owner
		}
	}
	for name, n := range known {
		if index[name] == 0 && n.batcher.busy() {
			add(n)
		}
	}
	return next
}

// topologyReader reads the topology in the background.
type topologyReader struct {
	current atomic.Pointer[topology] // nil until it has been read
	stale   atomic.Bool              // whether the next call must start to read it
	mu      sync.Mutex
	reading bool
	closed  bool
	readAt  time.Time
	expiry  *time.Timer // sets stale
	work    sync.WaitGroup
	ctx     context.Context // canceled by close
	cancel  context.CancelFunc
}

// refreshTopology starts to read the topology, unless it is being read, is younger than
// minAge, or the client cannot list the slots.
func (s *Store) refreshTopology(minAge time.Duration) {
	lister, ok := s.client.(SlotLister)
	r := &s.topology
	if !ok || !s.sharded.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading || r.closed || time.Since(r.readAt) < minAge {
		return
	}
	r.reading = true
	r.stale.Store(false)
	r.work.Go(func() { s.readTopology(lister) })
}

// readTopology reads the topology. If that fails, the known one stays.
func (s *Store) readTopology(lister SlotLister) {
	r := &s.topology
	ctx, cancel := context.WithTimeout(r.ctx, dialTimeout)
	defer cancel()
	ranges, err := lister.Slots(ctx)
	if err == nil && len(ranges) > 0 {
		r.current.Store(r.current.Load().next(s, ranges))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading, r.readAt = false, time.Now()
	if !r.closed {
		if r.expiry == nil {
			r.expiry = time.AfterFunc(topologyTTL, func() { r.stale.Store(true) })
		}
		r.expiry.Reset(topologyTTL)
	}
}

// noteFailure reads the topology again after a call failed in a way that may be due to a
// change of the topology.
func (s *Store) noteFailure(err error) {
	var known *headgate.StoreError
	if s.sharded.Load() && errors.As(err, &known) && known.Reason != headgate.ReasonWrongType {
		s.refreshTopology(minTopologyAge)
	}
}

func (r *topologyReader) close() {
	r.mu.Lock()
	r.closed = true
	if r.expiry != nil {
		r.expiry.Stop()
	}
	r.mu.Unlock()
	r.cancel()
	r.work.Wait()
}

// nodeOf returns the name of the node that serves the hash slot of a tag, or "" if it is
// unknown or there is only one node.
func (s *Store) nodeOf(tag string) string {
	if !s.sharded.Load() {
		return ""
	}
	if n := s.topology.current.Load().of(slotOf(tag)); n != nil {
		return n.name
	}
	return ""
}

// Node returns the address of the cluster's node that serves a key; see
// [headgate.NodeOf]. It returns "" without a cluster.
func (r *rule) Node(key string) string {
	if !r.store.sharded.Load() {
		return ""
	}
	return r.store.nodeOf(tagOf(r.keys.redisKey(key)))
}

// Node returns the address of the cluster's node that serves a key; see
// [headgate.NodeOf].
func (g *guideRule) Node(key string) string { return g.store.nodeOf(hashTag(key)) }

package memcachedstore

import (
	"fmt"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// Store is a [headgate.Store] whose state is in memcached. It is safe for concurrent
// use.
type Store struct {
	options       Options
	client        *memcache.Client
	writer        *memcache.Client // client that writes states through pipelines; equals client in NewFromClient
	pipelines     []*writePipeline // one for each server; nil in NewFromClient
	servers       servers          // list of servers; nil in NewFromClient
	connections   []*connections   // to each server; nil in NewFromClient
	maxLogEntries int
	scheduler     scheduler
	readBatchers  []batcher[readRequest] // one for each server

	// semaphores limit the concurrent operations: one semaphore for each server, and
	// the last one for operations on keys of several servers. With a semaphore per
	// server, a server that does not respond does not block operations on the others.
	semaphores []chan struct{}
	closing    chan struct{}
	closed     sync.Once
	closeErr   error
	written    writtenKeys
	clocks     clockWatch
}

// New creates a store that uses servers. Each is host:port, a host alone (for port
// 11211) or the path of a Unix socket. The CRC-32 of a key's name selects the server
// that stores the key, as in gomemcache. Every process must pass the same servers in
// the same order. New does no I/O. If a server is unreachable, the calls that need it
// fail.
func New(opts *Options, servers ...string) (*Store, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	list, err := parseServers(servers)
	if err != nil {
		return nil, err
	}
	client := memcache.NewFromSelector(list)
	client.Timeout = o.Timeout
	// If there are several servers, up to MaxConns operations on keys of several servers
	// use a server in addition to the MaxConns operations on this server alone.
	client.MaxIdleConns = o.MaxConns * min(len(list), 2)
	return newStore(o, client, list), nil
}

// NewFromClient creates a store that uses an existing client, with the client's servers
// and Timeout. The client's MaxIdleConns should be at least MaxConns. Its default is 2,
// and further connections are closed after each use and opened again. After a broken
// connection the store closes all idle connections of the client, because they most
// likely broke, too. The store never closes the client otherwise. Unlike [New], it does
// not limit the size of an item that a server announces.
func NewFromClient(opts *Options, client *memcache.Client) (*Store, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, fmt.Errorf("memcachedstore: %w: client is nil; pass a client, or use New", headgate.ErrInvalidPolicy)
	}
	return newStore(o, client, nil), nil
}

func newStore(o Options, client *memcache.Client, list servers) *Store {
	s := &Store{
		options: o, client: client, servers: list, maxLogEntries: maxEntries,
		scheduler: scheduler{groups: make(map[string]*group), locked: make(map[string][]chan struct{})},
		closing:   make(chan struct{}),
		writer:    client,
	}
	s.clocks.init(o.Namespace)
	if list != nil {
		s.connections, client.DialContext = newConnections(list)
		s.writer, s.pipelines = newWriter(client, list)
	}
	s.readBatchers = make([]batcher[readRequest], max(1, len(list)))
	for range len(s.readBatchers) + 1 {
		s.semaphores = append(s.semaphores, make(chan struct{}, o.MaxConns))
	}
	if o.Ephemeral {
		s.written.all = make(map[digest]struct{})
	}
	return s
}

// Bind prepares a rule for use; see [headgate.Store].
func (s *Store) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if s.isClosed() {
		return nil, headgate.ErrClosed
	}
	if !rule.OnStoreError.Closed() {
		return nil, fmt.Errorf("memcachedstore: bind: %w: OnStoreError is %.20q; must be closed; "+
			"for open or local, wrap this store with fallback.New", headgate.ErrUnsupported, string(rule.OnStoreError))
	}
	if rule.Lease.Enabled() {
		return nil, fmt.Errorf("memcachedstore: bind: %w: the rule is leased; wrap this store with lease.New", headgate.ErrUnsupported)
	}
	a, err := algo.Named(rule.Algorithm)
	if err != nil {
		return nil, err
	}
	b := &bound{
		store: s, scope: newScope(s.options.Namespace, string(a.Name), rule.Scope), ruleLimit: rule.Limit, deniedBy: []string{rule.Name},
		holds:   rule.Holds.WithDefaults(a.Name),
		canHold: a.Name.CanHold(), canLease: a.Name.CanLease(), onlyHolds: a.Name.OnlyHolds(),
	}
	if a.NewLog != nil {
		b.log, err = a.NewLog(rule.Limit)
		b.limit = rule.Limit.Rate
	} else if b.step, err = a.New(rule.Limit); err == nil {
		b.reserver, _ = b.step.(algo.Reserver)
		b.corrector, _ = b.step.(algo.Corrector)
		b.limit = b.step.Answer(algo.State{}, 0, 0, 0, true).Limit
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// acquire waits until the semaphore with this index allows another operation. It
// returns false if the store is closed.
func (s *Store) acquire(semaphore int) bool {
	if s.isClosed() {
		return false
	}
	select {
	case s.semaphores[semaphore] <- struct{}{}:
		return true
	case <-s.closing:
		return false
	}
}

func (s *Store) release(semaphore int) { <-s.semaphores[semaphore] }

func (s *Store) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Close waits for the operations in progress and closes idle connections. All other
// calls fail with [headgate.ErrClosed]. An ephemeral store also deletes the keys that
// it has written. If a server does not respond, Close blocks for up to Timeout for each
// pending reply. Further calls of Close also wait, and return the same error.
func (s *Store) Close() error {
	s.closed.Do(func() {
		s.scheduler.mu.Lock()
		s.scheduler.closed = true
		close(s.closing)
		s.scheduler.mu.Unlock()
		s.scheduler.workers.Wait()
		s.closeErr = s.deleteWrittenKeys()
		if s.servers != nil {
			s.closeIdle()
		}
	})
	return s.closeErr
}

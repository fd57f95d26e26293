package memcachedstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// Store is a [headgate.Store] whose state lies in memcached. It is safe for concurrent use.
type Store struct {
	options     Options
	client      *memcache.Client
	owned       bool // the client was made here
	mostEntries int  // in a log
	desk        desk
	slots       chan struct{} // one for each operation that may go on
	closing     chan struct{}
	written     names
}

// New makes a store over servers: each is host:port, a host alone for port 11211, or the path of a Unix socket. Every key lies on
// one of them, found by the CRC-32 of its name as gomemcache does; the order counts, and every process must name the same. It does
// no I/O: a server that is away is an error of the call that needs it.
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
	client.MaxIdleConns = o.MaxConns
	return newStore(o, client, true), nil
}

// NewFromClient makes a store over a client that the program already holds, with its servers and its Timeout. Its MaxIdleConns
// should be at least MaxConns; by default it is 2, and connections above that are dialed again and again. When a connection turns
// out to be broken the store closes the client's idle ones, which are then as broken; it never closes the client otherwise.
func NewFromClient(opts *Options, client *memcache.Client) (*Store, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, fmt.Errorf("memcachedstore: %w: no client was given; New makes one", headgate.ErrInvalidPolicy)
	}
	return newStore(o, client, false), nil
}

func newStore(o Options, client *memcache.Client, owned bool) *Store {
	s := &Store{
		options: o, client: client, owned: owned, mostEntries: maxEntries,
		desk:    desk{groups: make(map[string]*group), held: make(map[string][]chan struct{})},
		slots:   make(chan struct{}, o.MaxConns),
		closing: make(chan struct{}),
	}
	if o.Ephemeral {
		s.written.all = make(map[string]struct{})
	}
	return s
}

// Bind makes a rule ready for use; see [headgate.Store].
func (s *Store) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if s.isClosed() {
		return nil, headgate.ErrClosed
	}
	if !rule.OnStoreError.Closed() {
		return nil, fmt.Errorf("memcachedstore: bind: %w: OnStoreError %.20q: memcached has nothing to decide with while it is away; "+
			"package fallback puts that in front of it", headgate.ErrUnsupported, string(rule.OnStoreError))
	}
	a, err := algo.Named(rule.Algorithm)
	if err != nil {
		return nil, err
	}
	b := &bound{store: s, scope: newScope(s.options.Namespace, string(a.Name), rule.Scope), deniedBy: []string{rule.Name}}
	if a.NewLog != nil {
		b.log, err = a.NewLog(rule.Limit)
		b.limit = rule.Limit.Rate
	} else if b.step, err = a.New(rule.Limit); err == nil {
		b.booker, _ = b.step.(algo.Booker)
		b.limit = b.step.Answer(algo.State{}, 0, 0, 0, true).Limit
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// ApplyAll takes from every op or from none; see [headgate.Store] and the package comment.
func (s *Store) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if len(decisions) != len(ops) {
		return fmt.Errorf("memcachedstore: %w: %d decisions for %d ops", headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	q := &several{ops: make([]charge, len(ops)), decisions: make([]headgate.Decision, len(ops))}
	digests := make([]digest, len(ops))
	for i, op := range ops {
		b, ours := op.Bound.(*bound)
		if !ours || b.store != s {
			return fmt.Errorf("memcachedstore: %w: op %d is bound by another store", headgate.ErrInvalidPolicy, i+1)
		}
		q.ops[i], digests[i] = charge{bound: b, n: op.Cost}, b.scope.digest(op.Key)
	}
	keys := slices.Clone(digests)
	slices.SortFunc(keys, digest.compare)
	keys = slices.Compact(keys)
	for i, d := range digests {
		q.ops[i].cell, _ = slices.BinarySearchFunc(keys, d, digest.compare)
	}
	j := &job{now: now, peek: peek, several: q, done: make(chan struct{})}
	if err := s.do(ctx, j, keys); err != nil {
		return err
	}
	copy(decisions, q.decisions)
	return nil
}

// fetch reads keys with their cas numbers. Reading twice harms nobody, so it is repeated when a connection turns out to be broken:
// then the idle ones are closed first, as they are most likely from before the same end.
func (s *Store) fetch(keys []string) (map[string]*memcache.Item, error) {
	items, err := s.get(keys)
	if err != nil && broken(err) {
		_ = s.client.Close() // it can be used afterwards
		items, err = s.get(keys)
	}
	if err != nil {
		return nil, failure(err, false)
	}
	return items, nil
}

func (s *Store) get(keys []string) (map[string]*memcache.Item, error) {
	switch len(keys) {
	case 0:
		return nil, nil
	case 1:
		item, err := s.client.Get(keys[0])
		if errors.Is(err, memcache.ErrCacheMiss) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return map[string]*memcache.Item{keys[0]: item}, nil
	default:
		return s.client.GetMulti(keys)
	}
}

// lost is failure for something that was to be written.
func (s *Store) lost(err error) error {
	if broken(err) {
		_ = s.client.Close()
	}
	return failure(err, true)
}

// enter waits until one more operation may go on. It reports false once the store is closed.
func (s *Store) enter() bool {
	if s.isClosed() {
		return false
	}
	select {
	case s.slots <- struct{}{}:
		return true
	case <-s.closing:
		return false
	}
}

func (s *Store) exit() { <-s.slots }

func (s *Store) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Close lets the operations that are under way end, answers [headgate.ErrClosed] to everyone else, closes idle connections and,
// for an ephemeral store, deletes what it wrote first. It blocks for as long as that takes: with a server that says nothing, up to
// a Timeout for each reply that is awaited.
func (s *Store) Close() error {
	s.desk.mu.Lock()
	if s.desk.closed {
		s.desk.mu.Unlock()
		return nil
	}
	s.desk.closed = true
	close(s.closing)
	s.desk.mu.Unlock()
	s.desk.leaders.Wait()
	err := s.deleteWritten()
	if !s.owned {
		return err
	}
	return errors.Join(err, s.client.Close())
}

// names are the keys that an ephemeral store wrote; all is nil in any other.
type names struct {
	mu  sync.Mutex
	all map[string]struct{}
}

func (n *names) note(name string) {
	if n.all == nil {
		return
	}
	n.mu.Lock()
	n.all[name] = struct{}{}
	n.mu.Unlock()
}

// deleteWritten removes what an ephemeral store wrote. It gives up at the first error: what is left expires.
func (s *Store) deleteWritten() error {
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	work := make(chan string)
	stop := make(chan struct{})
	for range min(len(s.written.all), s.options.MaxConns) {
		workers.Go(func() {
			for name := range work {
				if err := s.client.Delete(name); err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
					once.Do(func() { failed = s.lost(err); close(stop) })
				}
			}
		})
	}
	for name := range s.written.all {
		select {
		case work <- name:
			continue
		case <-stop:
		}
		break
	}
	close(work)
	workers.Wait()
	return failed
}

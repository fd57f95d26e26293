package memcachedstore

import (
	"fmt"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// Store is a [headgate.Store] whose state lies in memcached. It is safe for concurrent use.
type Store struct {
	options     Options
	client      *memcache.Client
	writer      *memcache.Client // of states: on wires, or client if that was not made here
	wires       []*wires         // for each server
	servers     servers          // none if the client was not made here
	mostEntries int              // in a log
	desk        desk
	reads       []gathering[read] // for each server
	// For each server, and at last for operations on several, a place for each operation that may go on: a server that stands still
	// must not stop the others.
	lines    []chan struct{}
	closing  chan struct{}
	closed   sync.Once
	closeErr error
	written  names
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
	client.MaxIdleConns = o.MaxConns * min(len(list), 2) // one for an operation on several, as well
	return newStore(o, client, list), nil
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
	return newStore(o, client, nil), nil
}

func newStore(o Options, client *memcache.Client, list servers) *Store {
	s := &Store{
		options: o, client: client, servers: list, mostEntries: maxEntries,
		desk:    desk{groups: make(map[string]*group), held: make(map[string][]chan struct{})},
		closing: make(chan struct{}),
		writer:  client,
	}
	if list != nil {
		s.writer, s.wires = newWriter(client, list)
	}
	s.reads = make([]gathering[read], max(1, len(list)))
	for range len(s.reads) + 1 {
		s.lines = append(s.lines, make(chan struct{}, o.MaxConns))
	}
	if o.Ephemeral {
		s.written.all = make(map[digest]struct{})
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
		b.booker, _ = b.step.(algo.Reserver)
		b.limit = b.step.Answer(algo.State{}, 0, 0, 0, true).Limit
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// enter waits until one more operation may go on by this line. It reports false once the store is closed.
func (s *Store) enter(line int) bool {
	if s.isClosed() {
		return false
	}
	select {
	case s.lines[line] <- struct{}{}:
		return true
	case <-s.closing:
		return false
	}
}

func (s *Store) exit(line int) { <-s.lines[line] }

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
// a Timeout for each reply that is awaited. Whoever calls it again waits for the same, and gets the same error.
func (s *Store) Close() error {
	s.closed.Do(func() {
		s.desk.mu.Lock()
		s.desk.closed = true
		close(s.closing)
		s.desk.mu.Unlock()
		s.desk.leaders.Wait()
		s.closeErr = s.deleteWritten()
		if s.servers != nil {
			s.closeIdle()
		}
	})
	return s.closeErr
}

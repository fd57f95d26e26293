package memcachedstore

import (
	"strings"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// scheduler queues jobs. Jobs on the same keys form a group. Each group has a goroutine
// that executes the queued jobs, one round after another, and ends when the queue is
// empty. A round locks all of its keys within this process, so that groups with common
// keys do not interfere: in a request on several keys, a concurrent change of one key
// could cost units.
type scheduler struct {
	mu      sync.Mutex
	closed  bool
	pending int // number of jobs that are not completed
	groups  map[string]*group
	locked  map[string][]chan struct{} // waiters for each key that a round has locked, by name
	workers sync.WaitGroup
}

// group is a set of keys and the queue of jobs on exactly these keys.
type group struct {
	id        string
	keys      []digest // sorted
	names     []string // names of the keys in memcached
	logs      []bool   // whether the value of the key is a sliding log, for each key
	semaphore int      // index of the semaphore in Store.semaphores
	queue     []*job
	unjoined  bool // set by DisableJoin for a single key: the key is not locked
}

// submit queues a job. If no goroutine executes the jobs of its group, submit starts
// one.
func (s *Store) submit(j *job, keys []digest) error {
	g := s.newGroup(j, keys)
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	switch {
	case s.scheduler.closed:
		return headgate.ErrClosed
	case s.scheduler.pending >= s.options.MaxWaiting:
		return errTooManyWaiting(s.options.MaxWaiting)
	}
	s.scheduler.pending++
	if s.options.DisableJoin {
		g.unjoined = len(keys) == 1
		s.scheduler.workers.Go(func() { s.runOnce(g, g.queue) })
		return nil
	}
	if joined := s.scheduler.groups[g.id]; joined != nil {
		joined.queue = append(joined.queue, j)
		return nil
	}
	s.scheduler.groups[g.id] = g
	s.scheduler.workers.Go(func() { s.runGroup(g) })
	return nil
}

func (s *Store) newGroup(j *job, keys []digest) *group {
	g := &group{queue: []*job{j}, keys: keys, names: make([]string, len(keys)), logs: make([]bool, len(keys))}
	for i, d := range keys {
		g.names[i] = d.name()
		server := s.servers.index(g.names[i])
		if i > 0 && server != g.semaphore {
			server = len(s.servers)
		}
		g.semaphore = server
	}
	switch {
	case j.single != nil:
		g.logs[0] = j.single.bound.log != nil
	case j.lease != nil:
		g.logs[0] = j.lease.bound.log != nil
	case j.list != nil:
		g.logs[0] = j.list.bound.log != nil
	case j.holds != nil:
		for i := range j.holds.ops {
			g.logs[j.holds.ops[i].cell] = j.holds.ops[i].bound.log != nil
		}
	default:
		for _, op := range j.multi.ops {
			g.logs[op.cell] = op.bound.log != nil
		}
	}
	g.id = strings.Join(g.names, "")
	return g
}

// runGroup executes the queued jobs of a group until its queue is empty.
func (s *Store) runGroup(g *group) {
	for {
		s.lockKeys(g.names)
		s.scheduler.mu.Lock()
		n := roundLength(g.queue)
		jobs := g.queue[:n:n]
		g.queue = g.queue[n:]
		s.scheduler.mu.Unlock()
		s.runRound(g, jobs)
		s.unlockKeys(g.names)
		if s.removeIfEmpty(g) {
			return
		}
	}
}

// roundLength returns the number of jobs at the beginning of queue that may be in one
// round. A hold is not opened and committed in the same round: its record would be
// written although the hold may not be opened in the end.
func roundLength(queue []*job) int {
	var opened map[algo.HoldName]bool
	for n, j := range queue {
		if j.holds == nil {
			continue
		}
		for i := range j.holds.ops {
			switch name := algo.NameOf(j.holds.ops[i].id); {
			case j.holds.verb == headgate.OpenHold:
				if opened == nil {
					opened = map[algo.HoldName]bool{}
				}
				opened[name] = true
			case j.holds.verb == headgate.CommitHold && opened[name]:
				return n
			}
		}
	}
	return len(queue)
}

// removeIfEmpty removes a group if its queue is empty, and reports whether it removed
// the group.
func (s *Store) removeIfEmpty(g *group) bool {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	if len(g.queue) > 0 {
		return false
	}
	delete(s.scheduler.groups, g.id)
	return true
}

// runOnce executes a job that is not joined with others.
func (s *Store) runOnce(g *group, jobs []*job) {
	if !g.unjoined {
		s.lockKeys(g.names)
		defer s.unlockKeys(g.names)
	}
	s.runRound(g, jobs)
}

// runRound executes a group's jobs in one round and completes them.
func (s *Store) runRound(g *group, jobs []*job) {
	r := &round{store: s, group: g, jobs: jobs}
	err := r.run()
	s.scheduler.mu.Lock()
	s.scheduler.pending -= len(jobs)
	s.scheduler.mu.Unlock()
	for _, j := range jobs {
		j.complete(err)
	}
	s.watchClock()
}

// lockKeys locks keys one after another. For each key it waits until no other round in
// this process has locked the key.
func (s *Store) lockKeys(names []string) {
	for _, name := range names {
		s.scheduler.mu.Lock()
		waiters, locked := s.scheduler.locked[name]
		if !locked {
			s.scheduler.locked[name] = nil
			s.scheduler.mu.Unlock()
			continue
		}
		turn := make(chan struct{})
		s.scheduler.locked[name] = append(waiters, turn)
		s.scheduler.mu.Unlock()
		<-turn
	}
}

// unlockKeys passes the lock of each key to its first waiter, if any.
func (s *Store) unlockKeys(names []string) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	for _, name := range names {
		waiters := s.scheduler.locked[name]
		if len(waiters) == 0 {
			delete(s.scheduler.locked, name)
			continue
		}
		s.scheduler.locked[name] = waiters[1:]
		close(waiters[0])
	}
}

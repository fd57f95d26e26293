package memcachedstore

import (
	"strings"
	"sync"

	"github.com/headgate/headgate"
)

// desk is where callers wait. Jobs on the same keys form a group, whose leader, a goroutine, does what has come in as one round
// after another and ends when nothing more has. A round holds all of its keys, so that groups which share some do not disturb one
// another either; that is for several keys at once, where another's change in between could cost units.
type desk struct {
	mu      sync.Mutex
	closed  bool
	jobs    int // not answered yet
	groups  map[string]*group
	held    map[string][]chan struct{} // keys that a round holds, and who waits for them
	leaders sync.WaitGroup
}

// group is the jobs on the same keys.
type group struct {
	id    string
	keys  []digest // sorted
	names []string // theirs in memcached
	logs  []bool   // which of them hold logs
	line  int      // of the store's, which it goes by
	queue []*job
	alone bool // it joins nobody, and does not hold its key
}

// submit queues a job, and starts a leader for its group if it has none.
func (s *Store) submit(j *job, keys []digest) error {
	g := s.newGroup(j, keys)
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	switch {
	case s.desk.closed:
		return headgate.ErrClosed
	case s.desk.jobs >= s.options.MaxWaiting:
		return errCrowded(s.options.MaxWaiting)
	}
	s.desk.jobs++
	if s.options.DisableJoin {
		g.alone = len(keys) == 1
		s.desk.leaders.Go(func() { s.finish(g, g.queue) })
		return nil
	}
	if joined := s.desk.groups[g.id]; joined != nil {
		joined.queue = append(joined.queue, j)
		return nil
	}
	s.desk.groups[g.id] = g
	s.desk.leaders.Go(func() { s.lead(g) })
	return nil
}

func (s *Store) newGroup(j *job, keys []digest) *group {
	g := &group{queue: []*job{j}, keys: keys, names: make([]string, len(keys)), logs: make([]bool, len(keys))}
	for i, d := range keys {
		g.names[i] = d.name()
		server := s.servers.index(g.names[i])
		if i > 0 && server != g.line {
			server = len(s.servers)
		}
		g.line = server
	}
	if j.single != nil {
		g.logs[0] = j.single.bound.log != nil
	} else {
		for _, op := range j.several.ops {
			g.logs[op.cell] = op.bound.log != nil
		}
	}
	g.id = strings.Join(g.names, "")
	return g
}

// lead does a group's jobs until there are none.
func (s *Store) lead(g *group) {
	for {
		s.hold(g.names)
		s.desk.mu.Lock()
		jobs := g.queue
		g.queue = nil
		s.desk.mu.Unlock()
		s.settle(g, jobs)
		s.release(g.names)
		if s.dismiss(g) {
			return
		}
	}
}

// dismiss ends a group that nobody waits in.
func (s *Store) dismiss(g *group) bool {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	if len(g.queue) > 0 {
		return false
	}
	delete(s.desk.groups, g.id)
	return true
}

// finish does jobs that joined nobody.
func (s *Store) finish(g *group, jobs []*job) {
	if !g.alone {
		s.hold(g.names)
		defer s.release(g.names)
	}
	s.settle(g, jobs)
}

// settle makes one round of jobs, and answers them.
func (s *Store) settle(g *group, jobs []*job) {
	r := &round{store: s, group: g, jobs: jobs}
	err := r.run()
	s.desk.mu.Lock()
	s.desk.jobs -= len(jobs)
	s.desk.mu.Unlock()
	for _, j := range jobs {
		j.answer(err)
	}
}

// hold waits for keys, in their order, until nobody else in this process holds them.
func (s *Store) hold(names []string) {
	for _, name := range names {
		s.desk.mu.Lock()
		queue, held := s.desk.held[name]
		if !held {
			s.desk.held[name] = nil
			s.desk.mu.Unlock()
			continue
		}
		turn := make(chan struct{})
		s.desk.held[name] = append(queue, turn)
		s.desk.mu.Unlock()
		<-turn
	}
}

// release gives each key to who waits for it first.
func (s *Store) release(names []string) {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	for _, name := range names {
		queue := s.desk.held[name]
		if len(queue) == 0 {
			delete(s.desk.held, name)
			continue
		}
		s.desk.held[name] = queue[1:]
		close(queue[0])
	}
}

package redisstore

import "time"

// ReadTopology reads the topology of the cluster again, and waits for it.
func ReadTopology(s *Store) {
	s.refreshTopology(0)
	AwaitTopology(s)
}

// AwaitTopology waits until the topology of the cluster is known and not being read.
func AwaitTopology(s *Store) {
	for ready := false; !ready; time.Sleep(time.Millisecond) {
		s.topology.mu.Lock()
		ready = !s.topology.reading && s.topology.current.Load() != nil
		s.topology.mu.Unlock()
	}
}

// NewEditedStore returns a store whose script is edited.
var NewEditedStore = newEditedStore

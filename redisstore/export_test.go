package redisstore

import (
	"time"

	"github.com/headgate/headgate"
)

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

// AlgorithmsText and StoreText are the parts of the script of a store.
var AlgorithmsText, StoreText = algorithmsText, storeText

// RedisKey returns the Redis key of a key under a limit of a policy.
func RedisKey(namespace string, algorithm headgate.Algorithm, scope, key string) string {
	names := newKeyNames(&Options{Namespace: namespace}, algorithm, scope)
	return names.redisKey(key)
}

// ShiftClock sets the difference that the store assumes between the server's clock and
// the clock of this process.
func ShiftClock(s *Store, d time.Duration) { s.clockShift.Store(d.Microseconds()) }

// ClockShift returns the difference that the store assumes.
func ClockShift(s *Store) time.Duration { return time.Duration(s.clockShift.Load()) * time.Microsecond }

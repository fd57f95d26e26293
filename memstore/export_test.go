package memstore

// BytesOfLogsAndHolds returns the memory of sliding logs and holds: the counter to which
// each operation adds, and the sum over the state.
func (s *Store) BytesOfLogsAndHolds() (counted, sum int64) {
	_, holds := s.holds.stats()
	return s.logs.bytes.Load(), s.logs.countBytes() + holds
}

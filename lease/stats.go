package lease

// Stats are counts of a [Store]. Counts of events are totals since [New].
type Stats struct {
	Keys         int   // keys that are leased
	UnspentUnits int64 // units on lease that were not spent
	Decisions    int64 // decisions from memory
	Calls        int64 // calls to the inner store for leases
	Failed       int64 // calls that failed
	Waited       int64 // callers that waited for a renewal
	Stranded     int64 // units of leases that ended before they were spent or returned
}

// Stats returns the present counts. It reads one leased key after another, so the
// counts are not of one instant.
func (s *Store) Stats() Stats {
	st := Stats{
		Decisions: s.totals.decisions.Load(), Calls: s.totals.calls.Load(), Failed: s.totals.failed.Load(),
		Waited: s.totals.waited.Load(), Stranded: s.totals.stranded.Load(),
	}
	for _, k := range s.keys.all() {
		st.Keys++
		st.Decisions += k.decisions.Load()
		if s.clock() < k.state.Load().validUntil {
			st.UnspentUnits += k.unspent.Load()
		}
	}
	for _, c := range s.slots.all() {
		st.Keys++
		c.mu.Lock()
		if c.now() < c.validUntil {
			st.UnspentUnits += c.free()
		}
		c.mu.Unlock()
	}
	return st
}

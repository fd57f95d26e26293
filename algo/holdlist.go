package algo

import "github.com/headgate/headgate"

// List returns at most most of the records that have not expired by t, after the first
// skip ones, and the totals of all; see [headgate.HoldLister]. isLog is whether the units
// are counted in a log, which has the instants at which they were charged.
func (l *Ledger) List(t int64, skip, limit int, isLog bool) (list headgate.HoldList) {
	for i := range l.Holds {
		h := &l.Holds[i]
		if h.Deadline <= t {
			continue
		}
		if at := list.Holds + list.Leases; at >= skip && len(list.Records) < limit {
			list.Records = append(list.Records, h.record(isLog))
		}
		if h.isLease() {
			list.Leases, list.Leased = list.Leases+1, list.Leased+h.Units()
		} else {
			list.Holds, list.Held = list.Holds+1, list.Held+h.Units()
		}
	}
	return list
}

// record returns h as a record for operators.
func (h *Hold) record(isLog bool) headgate.HoldRecord {
	r := headgate.HoldRecord{Units: h.Units(), Deadline: headgate.Instant(h.Deadline), Lease: h.isLease()}
	name := NameOf(h.ID)
	copy(r.ID[:], name[:])
	if isLog && !r.Lease && h.Units() > 0 {
		r.Begin = headgate.Instant(h.ChargedAt)
	}
	return r
}

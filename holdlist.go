package headgate

import "context"

// HoldRecord is an open hold of a key, or a lease: units that a process has taken in
// advance.
type HoldRecord struct {
	// ID identifies the record among those of the key. Only its first 12 bytes are
	// defined; the others are 0. Stores compare no more.
	ID       HoldID
	Units    int64
	Deadline Instant // instant at which it ends if nothing happens before
	// Begin is the instant at which the hold was opened. It is 0 if the store does not
	// keep it, which is the usual case.
	Begin Instant
	Lease bool // whether it is a lease
}

// HoldList is a part of the open holds and leases of a key, and their totals.
type HoldList struct {
	Records []HoldRecord // in the order in which they were opened
	// Holds and Leases are the numbers of all open holds and leases of the key, whether
	// or not Records has them. Held and Leased are their units.
	Holds, Leases int
	Held, Leased  int64
}

// HoldLister is a [Bound] that can list the open holds and leases of a key. It is
// optional: a store without holds does not implement it. It is for operators, not for a
// call per decision.
type HoldLister interface {
	Bound

	// ListHolds returns at most limit records, after the first skip ones. It changes
	// nothing, and leaves out what has expired by now. Between two calls, records can be
	// added and removed, so a page can repeat or miss some. It returns [ErrUnsupported]
	// if the algorithm has no holds, or if a store that is wrapped cannot list them.
	ListHolds(ctx context.Context, now Instant, key string, skip, limit int) (HoldList, error)
}

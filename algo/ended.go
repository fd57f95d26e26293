package algo

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/headgate/headgate"
)

// EndedHold is the record of a hold that has ended before its deadline. It takes 24
// bytes.
type EndedHold struct {
	ID       headgate.HoldID // with the checksum of the request; see RequestChecksums
	Deadline int64           // in µs
}

// Ended has the records of the holds of one key that have ended, the earliest deadline
// first. A record is kept until the deadline, so that a repeated request has no effect.
type Ended []EndedHold

// Find returns the record of the hold with the name of the given id, if its deadline is
// after t. It compares the names one by one.
func (e Ended) Find(id headgate.HoldID, t int64) (EndedHold, bool) {
	name := NameOf(id)
	for i := range e {
		if NameOf(e[i].ID) == name && e[i].Deadline > t {
			return e[i], true
		}
	}
	return EndedHold{}, false
}

// Expire removes the records whose deadlines are not after t.
func (e Ended) Expire(t int64) Ended {
	n := 0
	for n < len(e) && e[n].Deadline <= t {
		n++
	}
	return slices.Delete(e, 0, n)
}

// Add adds a record at t, after Expire, in place of one with the same name. If there are
// more than maxRecords, those with the earliest deadlines are removed.
func (e Ended) Add(h EndedHold, t int64, maxRecords int) Ended {
	name := NameOf(h.ID)
	e = slices.DeleteFunc(e.Expire(t), func(o EndedHold) bool { return NameOf(o.ID) == name })
	i, _ := slices.BinarySearchFunc(e, h, compareEnded)
	e = slices.Insert(e, i, h)
	return slices.Delete(e, 0, max(0, len(e)-maxRecords))
}

func compareEnded(a, b EndedHold) int {
	return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), bytes.Compare(a.ID[:], b.ID[:]))
}

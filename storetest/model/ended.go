package model

// Ended has the deadlines of the committed holds of a key. Of more than Max, it has those
// with the latest deadlines, which must differ.
type Ended struct {
	Max       int // 0 means no maximum
	deadlines map[string]int64
}

func (e *Ended) add(id string, deadline int64) {
	if e.deadlines == nil {
		e.deadlines = map[string]int64{}
	}
	e.deadlines[id] = deadline
	if e.Max == 0 || len(e.deadlines) <= e.Max {
		return
	}
	first := id
	for other, at := range e.deadlines {
		if at < e.deadlines[first] {
			first = other
		}
	}
	delete(e.deadlines, first)
}

// Deadline returns the deadline of a committed hold, if that is after t and its record is
// kept.
func (e *Ended) Deadline(id string, t int64) (deadline int64, ok bool) {
	deadline = e.deadlines[id]
	return deadline, deadline > t
}

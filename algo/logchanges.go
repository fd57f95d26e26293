package algo

import "sort"

// changedAt records that the entry with the instant at, and later entries, may have
// changed.
func (log *Log) changedAt(at int64) { log.saved = min(log.saved, at) }

// MarkSaved records that the caller has saved the log. See [Log.Changes].
func (log *Log) MarkSaved() { log.saved = maxExact }

// Changes returns what has changed since the last call of MarkSaved, for a store that
// saves its state in pieces: entries before the instant oldest were removed, and all
// entries from the instant from on are replaced by the present entries. Before
// the first call of MarkSaved, from is 0. If the log is empty, oldest is later than every
// instant.
func (log *Log) Changes() (oldest, from int64) {
	if log.Len() == 0 {
		return maxExact, 0
	}
	return log.entries[log.head].At, log.saved
}

// UnitsFrom calls yield with the instant and the units of each entry that is not before
// the instant from, oldest first.
func (log *Log) UnitsFrom(from int64, yield func(at, units int64) bool) {
	for i := log.head + log.agedOut(from-1); i < len(log.entries); i++ {
		if !yield(log.entries[i].At, log.unitsOf(i)) {
			return
		}
	}
}

// Cut applies the result of Changes to a log that was restored: it removes the entries
// before the instant oldest, and those from the instant from on. The entries that the
// changed log has from there on must be added with [Log.Append] afterwards.
func (log *Log) Cut(oldest, from int64) {
	held := log.entries[log.head:]
	keep := sort.Search(len(held), func(i int) bool { return held[i].At >= from })
	log.entries = log.entries[:log.head+keep]
	log.saved = min(log.saved, from)
	if log.age(oldest - 1); log.Len() == 0 {
		log.entries, log.head, log.base = log.entries[:0], 0, 0
	}
}

// Trim frees memory that the log does not need, if it is more than half.
func (log *Log) Trim() {
	if log.Cap() > 4 && log.Cap() > 2*log.Len() {
		entries := make([]LogEntry, log.Len())
		copy(entries, log.entries[log.head:])
		log.entries, log.head = entries, 0
	}
}

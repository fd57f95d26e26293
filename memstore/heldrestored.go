package memstore

// This file handles keys whose open holds were restored and whose rule is not known: its
// policy has not been used since the start, or does not exist anymore.

// restoredKey is the state of a key without its holds.
type restoredKey struct {
	words
	isLog bool // whether the state is a sliding log, which is stored elsewhere
}

// bindLog sets the rule of a key with a sliding log if it is not known. k may be nil.
func (sh *holdShard) bindLog(k *heldKey, b *logBound) {
	if k != nil && k.log == nil {
		k.log = b
		sh.watch(&k.due, k.ledger.NextDeadline()) // dropRestored may have left it out
	}
}

// plainWords returns the words of the key's state without its holds.
func (k *heldKey) plainWords() words {
	if k.rule == nil {
		return k.restored.words
	}
	return k.rule.pack(k.account.State)
}

// usesLog reports whether the state of the key is a sliding log.
func (k *heldKey) usesLog() bool {
	return k.rule == nil && (k.log != nil || k.restored != nil && k.restored.isLog)
}

// nextAfter returns the earliest deadline after t of the open holds, or 0 if all have
// expired by t.
func (k *heldKey) nextAfter(t int64) (next int64) {
	for i := range k.ledger.Holds {
		if at := k.ledger.Holds[i].Deadline; at > t && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// dropRestored removes the holds of a key whose rule is not known, when the state has
// expired, too: then they have no effect under any rule. sh.mu must be locked. Holds on a
// sliding log stay until the rule is used, or until the next start. dropRestored returns
// false if it must be called again.
func (s *Store) dropRestored(sh *holdShard, k *heldKey, t int64) bool {
	next := k.nextAfter(t)
	if next == 0 && !k.restored.isLog {
		next = k.restored.expiry()
	}
	switch {
	case next > t:
		sh.watch(&k.due, next)
		return true
	case k.restored.isLog:
		return true
	}
	slot := s.keys.shard(k.digest).find(k.digest)
	if slot == nil {
		return false
	}
	seen, ok := slot.read(k.digest)
	if !ok || !slot.lock(seen) {
		return false
	}
	slot.unlock(seen, k.restored.words)
	s.keys.shard(k.digest).changed(slot)
	s.logs.bytes.Add(-holdBytes * int64(len(k.ledger.Holds)))
	k.ledger.Clear()
	s.removeHeld(sh, k)
	return true
}

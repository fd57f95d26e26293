package memstore

// This file handles keys whose open holds were restored and whose rule is not known: its
// policy has not been used since the start, or does not exist anymore.

// bindLog sets the rule of a key with a sliding log if it is not known. k may be nil.
func (k *heldKey) bindLog(b *logBound) {
	if k != nil && k.log == nil {
		k.log = b
	}
}

// plainWords returns the words of the key's state without its holds.
func (k *heldKey) plainWords() words {
	if k.rule == nil {
		return k.restored
	}
	return k.rule.pack(k.account.State)
}

// usesLog reports whether the state of the key is a sliding log.
func (k *heldKey) usesLog() bool { return k.rule == nil && (k.log != nil || k.restoredLog) }

// expiredBy reports whether all holds of the key have ended by t.
func (k *heldKey) expiredBy(t int64) bool {
	for i := range k.ledger.Holds {
		if k.ledger.Holds[i].Deadline > t {
			return false
		}
	}
	return true
}

// dropRestored removes the holds of a key whose rule is not known, when the state has
// expired, too: then they have no effect under any rule. sh.mu must be locked. Holds on a
// sliding log stay until the rule is used, or until the next start.
func (s *Store) dropRestored(sh *holdShard, k *heldKey, t int64) {
	if k.restoredLog || !k.expiredBy(t) || k.restored.expiry() > t {
		return
	}
	slot := s.keys.shard(k.digest).find(k.digest)
	if slot == nil {
		return
	}
	seen, ok := slot.read(k.digest)
	if !ok || !slot.lock(seen) {
		return
	}
	slot.unlock(seen, k.restored)
	s.keys.shard(k.digest).changed(slot)
	s.logs.bytes.Add(-holdBytes * int64(len(k.ledger.Holds)))
	k.ledger.Clear()
	s.removeHeld(sh, k)
}

package memstore

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// ListHolds lists the open holds and leases of a key; see [headgate.HoldLister].
func (b *slotBound) ListHolds(_ context.Context, now headgate.Instant, key string, skip, limit int) (headgate.HoldList, error) {
	return b.list(now, b.canHold, key, skip, limit, false)
}

// ListHolds lists the open holds and leases of a key; see [headgate.HoldLister].
func (b *logBound) ListHolds(_ context.Context, now headgate.Instant, key string, skip, limit int) (headgate.HoldList, error) {
	return b.list(now, true, key, skip, limit, true)
}

func (b *ruleState) list(now headgate.Instant, canHold bool, key string, skip, limit int, isLog bool) (headgate.HoldList, error) {
	switch {
	case b.store.closed.Load():
		return headgate.HoldList{}, headgate.ErrClosed
	case !canHold:
		return headgate.HoldList{}, fmt.Errorf("memstore: list holds: %w: the algorithm has no holds", headgate.ErrUnsupported)
	}
	t, d := b.store.instant(now), b.secret.sum(key)
	sh := b.store.holds.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := sh.keys.get(d); k != nil {
		return k.ledger.List(t, skip, limit, isLog), nil
	}
	return headgate.HoldList{}, nil
}

var (
	_ headgate.HoldLister = (*slotBound)(nil)
	_ headgate.HoldLister = (*logBound)(nil)
)

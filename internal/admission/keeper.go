package admission

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/heartbeat"
	"github.com/headgate/headgate/internal/root"
)

// Keeper extends the holds of all requests in progress, with one store operation for each
// third of their TTL. It has no goroutine while no request has a hold.
type Keeper struct {
	store headgate.Store
	ttl   time.Duration
	set   *heartbeat.Set[*keptHold]
}

// keptHold has the ops of an open hold.
type keptHold struct{ ops []headgate.HoldOp }

// NewKeeper returns a Keeper for holds with the given TTL.
func NewKeeper(store headgate.Store, ttl time.Duration) *Keeper {
	k := &Keeper{store: store, ttl: ttl}
	k.set = heartbeat.New(max(ttl/3, time.Microsecond), k.extend)
	return k
}

// Keep extends the hold of the batch until it is committed. It does nothing if there is
// no hold.
func (b *Batch) Keep(k *Keeper) {
	if !b.IsHeld() {
		return
	}
	b.keeper, b.kept = k, &keptHold{append([]headgate.HoldOp(nil), b.held...)}
	k.set.Add(b.kept)
}

func (k *Keeper) remove(h *keptHold) { k.set.Remove(h) }

// extend extends all holds, and returns nil, because it reports nothing. After an error,
// the next call tries again. A hold that has expired in the meantime stays lost: its
// request goes on, and its slots are available to others.
func (k *Keeper) extend(ctx context.Context, holds []*keptHold) (report func()) {
	// short enough for another attempt before the deadline, if each one takes this long
	ctx, cancel := context.WithTimeout(ctx, k.ttl/9)
	defer cancel()
	var ops []headgate.HoldOp
	sizes := make([]int, len(holds))
	for i, h := range holds {
		ops, sizes[i] = append(ops, h.ops...), len(h.ops)
	}
	_, _ = root.ExtendHolds(ctx, k.store, headgate.StoreClock, k.ttl, ops, sizes, make([]headgate.HoldResult, len(ops)))
	return nil
}

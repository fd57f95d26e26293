package lease

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// ListHolds lists the open holds and leases of a key in the inner store, of all
// processes; see [headgate.HoldLister].
func (b *leasedBound) ListHolds(ctx context.Context, now headgate.Instant, key string, skip, limit int) (headgate.HoldList, error) {
	return listHolds(ctx, b.Bound, now, key, skip, limit)
}

// ListHolds lists the open holds of a key in the inner store; see [headgate.HoldLister].
// The slots that a process has taken in advance are listed as holds. The holds that it
// opens in memory are not listed.
func (b *slotBound) ListHolds(ctx context.Context, now headgate.Instant, key string, skip, limit int) (headgate.HoldList, error) {
	return listHolds(ctx, b.Bound, now, key, skip, limit)
}

func listHolds(ctx context.Context, inner headgate.Bound, now headgate.Instant, key string, skip, limit int) (headgate.HoldList, error) {
	lister, ok := inner.(headgate.HoldLister)
	if !ok {
		return headgate.HoldList{}, fmt.Errorf("lease: %w: the inner store cannot list holds", headgate.ErrUnsupported)
	}
	return lister.ListHolds(ctx, now, key, skip, limit)
}

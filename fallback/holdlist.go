package fallback

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// ListHolds lists the open holds and leases of a key in the inner store; see
// [headgate.HoldLister]. The failure modes do not apply: while the inner store is
// unavailable, it returns the error.
func (b *bound) ListHolds(ctx context.Context, now headgate.Instant, key string, skip, limit int) (headgate.HoldList, error) {
	inner, ok := b.inner.(headgate.HoldLister)
	if !ok {
		return headgate.HoldList{}, fmt.Errorf("fallback: %w: the inner store cannot list holds", headgate.ErrUnsupported)
	}
	c, v := b.store.enter(ctx, storeCall{bound: b.inner, key: key})
	if v.err != nil {
		return headgate.HoldList{}, v.err
	}
	defer c.end()
	list, err := inner.ListHolds(c.ctx, now, key, skip, limit)
	if v = c.judge(err); v.err != nil {
		return headgate.HoldList{}, v.err
	}
	return list, nil
}

package turn

import "context"

// Receipt collects how to undo several waits that are made one after another, for a
// request that needs all of them. It belongs to one goroutine. Its zero value is empty.
type Receipt struct{ undo []func(context.Context) }

type receiptKey struct{}

// WithReceipt returns a context whose waits are noted in the receipt.
func WithReceipt(ctx context.Context) (context.Context, *Receipt) {
	r := &Receipt{}
	return context.WithValue(ctx, receiptKey{}, r), r
}

// ReceiptOf returns the receipt of ctx; nil if it has none.
func ReceiptOf(ctx context.Context) *Receipt {
	r, _ := ctx.Value(receiptKey{}).(*Receipt)
	return r
}

// Add notes how to undo one wait.
func (r *Receipt) Add(undo func(context.Context)) { r.undo = append(r.undo, undo) }

// Undo undoes every wait, within [StoreTimeout] together. It may be called when ctx has
// ended, and on a nil receipt.
func (r *Receipt) Undo(ctx context.Context) {
	if r == nil {
		return
	}
	ctx, done := Detached(ctx)
	defer done()
	for _, undo := range r.undo {
		undo(ctx)
	}
}

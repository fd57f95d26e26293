package turn

import "context"

// Receipt collects the functions that undo several waits. Use it for a request that
// makes the waits one after another and needs all of them. It must be used by one
// goroutine. The zero value is empty.
type Receipt struct{ undo []func(context.Context) }

type receiptKey struct{}

// WithReceipt returns a context with a new receipt. Waits with this context are added
// to the receipt.
func WithReceipt(ctx context.Context) (context.Context, *Receipt) {
	r := &Receipt{}
	return context.WithValue(ctx, receiptKey{}, r), r
}

// ReceiptOf returns the receipt of ctx, or nil if there is none.
func ReceiptOf(ctx context.Context) *Receipt {
	r, _ := ctx.Value(receiptKey{}).(*Receipt)
	return r
}

// Add adds undo, which releases the units of one completed wait.
func (r *Receipt) Add(undo func(context.Context)) { r.undo = append(r.undo, undo) }

// Undo undoes all waits, within [StoreTimeout] in total. It may be called after ctx has
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

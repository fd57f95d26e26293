package engine

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// healthLimit is of the rule that Health asks for; nobody spends under it.
var healthLimit = headgate.MustParseLimit("1/1s")

// bindHealth makes the rule that Health asks for.
func bindHealth(store headgate.Store) (headgate.Bound, error) {
	return bindMode(store, headgate.FailClosed)
}

// keeps reports an OnStoreError that the store cannot keep, so that it is known now and not at the first check.
func keeps(store headgate.Store, mode headgate.OnStoreError) error {
	if err := mode.Validate(); err != nil {
		return err
	}
	_, err := bindMode(store, mode)
	return err
}

func bindMode(store headgate.Store, mode headgate.OnStoreError) (headgate.Bound, error) {
	return store.Bind(headgate.Rule{Scope: "health", Name: "health", Limit: healthLimit, OnStoreError: mode})
}

// Health asks the store for a decision that spends nothing and leaves nothing behind, and reports why it could not make one, whatever
// holds for checks meanwhile; nil if it did. It is one operation of the store.
func (e *Engine) Health(ctx context.Context) error {
	if _, err := e.health.Apply(ctx, headgate.StoreClock, "", headgate.Peek, 0); err != nil {
		return fmt.Errorf("engine: health: %w", err)
	}
	return nil
}

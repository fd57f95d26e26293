package engine

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// healthLimit is the limit of the rule that Health peeks at. Nothing is spent under it.
var healthLimit = headgate.MustParseLimit("1/1s")

// bindHealth binds the rule that Health peeks at.
func bindHealth(store headgate.Store) (headgate.Bound, error) {
	return bindMode(store, headgate.FailClosed)
}

// validateOnStoreError returns an error for a mode that the store does not support, so
// that it is reported at the start and not by the first check.
func validateOnStoreError(store headgate.Store, mode headgate.OnStoreError) error {
	if err := mode.Validate(); err != nil {
		return err
	}
	_, err := bindMode(store, mode)
	return err
}

func bindMode(store headgate.Store, mode headgate.OnStoreError) (headgate.Bound, error) {
	return store.Bind(headgate.Rule{Scope: "health", Name: "health", Limit: healthLimit, OnStoreError: mode})
}

// Health returns nil if the store can decide, or the reason why it cannot, whatever the
// failure mode of checks is. It is one operation of the store, which spends and writes
// nothing.
func (e *Engine) Health(ctx context.Context) error {
	if _, err := e.health.Apply(ctx, headgate.StoreClock, "", headgate.Peek, 0); err != nil {
		return fmt.Errorf("health check: %w", err)
	}
	return nil
}

package engine

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// healthLimit is the limit that Health peeks at. A peek spends nothing.
var healthLimit = headgate.MustParseLimit("1/1s")

// bindHealth binds the rule that Health peeks at.
func bindHealth(store headgate.Store) (headgate.Bound, error) {
	return bindMode(store, headgate.FailClosed)
}

// validateOnStoreError returns an error if the store does not support the mode, so that
// this is reported at startup and not by the first check.
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

// Health returns nil if the store can decide, or else the reason why it can't. The
// failure modes of policies have no effect on the result. It makes one store operation,
// which neither spends nor writes anything.
func (e *Engine) Health(ctx context.Context) error {
	if _, err := e.health.Apply(ctx, headgate.StoreClock, "", headgate.Peek, 0); err != nil {
		return fmt.Errorf("health check: %w", err)
	}
	return nil
}

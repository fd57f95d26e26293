package engine

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// healthLimit is of the rule that Health asks for; nobody spends under it.
var healthLimit = headgate.MustParseLimit("1/1s")

// bindHealth makes the rule that Health asks for. The store is told of OnStoreError by a rule that is bound in passing, so that one
// that cannot keep it is known now and not at the first check.
func (e *Engine) bindHealth() (err error) {
	rule := headgate.Rule{Scope: "health", Name: "health", Limit: healthLimit, OnStoreError: e.onError}
	if _, err = e.store.Bind(rule); err != nil {
		return err
	}
	rule.OnStoreError = headgate.FailClosed
	e.health, err = e.store.Bind(rule)
	return err
}

// Health asks the store for a decision that spends nothing and leaves nothing behind, and reports why it could not make one, whatever
// holds for checks meanwhile; nil if it did. It is one operation of the store.
func (e *Engine) Health(ctx context.Context) error {
	if _, err := e.health.Apply(ctx, headgate.StoreClock, "", headgate.Peek, 0); err != nil {
		return fmt.Errorf("engine: health: %w", err)
	}
	return nil
}

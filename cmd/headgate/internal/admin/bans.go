package admin

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// BanState is the state of a key under the bans of a policy.
type BanState struct {
	Banned  bool      `json:"banned"`
	Until   time.Time `json:"until,omitzero"`
	Denials int64     `json:"denials"` // that count towards the next ban
	Bans    int64     `json:"bans"`    // that are not forgotten
}

// banOf returns the state of the key of a check under the bans of its policy, or nil if
// the policy has none for this key.
func (c *call) banOf(active *engine.ActiveConfig, check *engine.Check, x *engine.Inspection, now time.Time) (*BanState, error) {
	if !x.Bans {
		return nil, nil
	}
	b, ok, err := active.BanState(c.ctx, headgate.StoreClock, check.Policy, check.Key)
	if err != nil || !ok {
		return nil, err
	}
	state := &BanState{Banned: b.Banned, Denials: b.Denials, Bans: b.Bans}
	if b.Banned {
		state.Until = now.Add(b.Ends).UTC()
	}
	return state, nil
}

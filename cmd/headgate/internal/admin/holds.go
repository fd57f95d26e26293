package admin

import (
	"encoding/hex"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/audit"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// idHashBytes is the number of bytes of the id of a hold that stores compare.
const idHashBytes = 12

// cancelRequest is a request to cancel a hold: by its token, or by a key and the hash of
// its id.
type cancelRequest struct {
	changeRequest
	Hold   string `json:"hold"`
	IDHash string `json:"id_hash"`
}

// Canceled is the result of a request to cancel a hold.
type Canceled struct {
	Replayed bool       `json:"replayed"`
	After    []KeyState `json:"after"`
}

func (c *call) cancelHold() (any, error) {
	in, err := decode[cancelRequest](c.body)
	if err != nil {
		return nil, err
	}
	if err := checkReason(in.Reason); err != nil {
		return nil, err
	}
	active := c.Engine.ActiveConfig()
	hold, err := c.holdOf(active, &in)
	if err != nil {
		return nil, err
	}
	checks := append([]engine.Check(nil), hold.Checks...)
	var a engine.Answer
	if err := active.Cancel(c.ctx, headgate.StoreClock, &hold, &a); err != nil {
		return nil, err
	}
	out := Canceled{Replayed: a.Replayed}
	var entries []audit.Entry
	for i := range checks {
		checks[i].Cost = 1
		state, err := c.stateOf(active, &checks[i], engine.HoldPage{})
		if err != nil {
			return nil, err
		}
		out.After = append(out.After, state)
		entries = append(entries, audit.Entry{
			Action: fmt.Sprintf("cancel hold %x", hold.ID[:idHashBytes]), Policy: checks[i].Policy,
			Key: c.shownKey(checks[i].Policy, checks[i].Key), After: summary(&state), Reason: in.Reason,
		})
	}
	c.record(entries...)
	return out, nil
}

// holdOf returns the hold that a request names.
func (c *call) holdOf(active *engine.ActiveConfig, in *cancelRequest) (engine.ClientHold, error) {
	if in.Hold != "" {
		if in.Key != nil || in.Policy != "" || in.Limit != "" || in.Algorithm != "" || in.IDHash != "" {
			return engine.ClientHold{}, badRequest("hold", `field "hold" contains the policy, the key and the id; send only reason next to it`)
		}
		hold, err := engine.ParseHold(in.Hold, active.MaxHoldChecks())
		if err != nil {
			return hold, badRequest("hold", "%s", engine.Reason(err))
		}
		return hold, nil
	}
	check, err := in.check(0, false)
	if err != nil {
		return engine.ClientHold{}, err
	}
	id, err := hex.DecodeString(in.IDHash)
	if err != nil || len(id) != idHashBytes {
		return engine.ClientHold{}, badRequest("id_hash", `field "id_hash" must have 24 hexadecimal digits, as inspect returns them`)
	}
	hold := engine.ClientHold{Checks: []engine.Check{check}, Expires: headgate.MaxInstant}
	copy(hold.ID[:], id)
	return hold, c.mustNotBeLease(active, &check, &hold)
}

// mustNotBeLease returns an error if the id is that of a lease: the process that has the
// lease goes on spending its units.
func (c *call) mustNotBeLease(active *engine.ActiveConfig, check *engine.Check, hold *engine.ClientHold) error {
	x, err := active.Inspect(c.ctx, check, engine.HoldPage{List: true, Max: headgate.MaxOpenHolds})
	if err != nil {
		return err
	}
	for _, l := range x.Limits {
		if l.Holds == nil {
			continue
		}
		for _, r := range l.Holds.Records {
			if r.Lease && r.ID == hold.ID {
				return badRequest("id_hash", "the id is that of a lease, which only its process can end; it ends at its deadline")
			}
		}
	}
	return nil
}

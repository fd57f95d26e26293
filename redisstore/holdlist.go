package redisstore

import (
	"context"
	_ "embed"
	"encoding/binary"
	"math"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

//go:embed holdlist.lua
var holdListLua string

// holdListScript reads the open holds of one key. It writes nothing.
var holdListScript = newScript(holdListLua)

// ListHolds lists the open holds and leases of a key; see [headgate.HoldLister]. It is
// one round trip, in which the server returns the whole value: 44 bytes for a record.
func (r *rule) ListHolds(ctx context.Context, now headgate.Instant, key string, skip, limit int) (headgate.HoldList, error) {
	if err := r.store.checkReady(ctx); err != nil {
		return headgate.HoldList{}, err
	}
	if !r.canHold {
		return headgate.HoldList{}, errUnsupported("list holds", "holds require "+algo.NamesWhere(headgate.Algorithm.CanHold))
	}
	ctx, cancel := r.store.withTimeout(ctx)
	defer cancel()
	calls := []Call{{Script: holdListScript.text, SHA: holdListScript.sha, Keys: []string{r.keys.redisKey(key)}}}
	var replies [1]Reply
	if r.store.run(ctx, calls, replies[:]); replies[0].Err != nil {
		err := classify(replies[0].Err)
		r.store.noteFailure(err)
		return headgate.HoldList{}, err
	}
	ledger, t, ok := decodeHolds([]byte(replies[0].Text))
	if !ok {
		return headgate.HoldList{}, errForeign()
	}
	if now != headgate.StoreClock {
		t = int64(now)
	}
	return ledger.List(t, skip, limit, r.log != nil), nil
}

// The sizes of the formats in holdvalue.lua and log.lua, and of a change of the limit in
// holds.lua, in bytes.
const (
	heldLogFormat = 5

	heldSmallBytes                      = 9
	holdHeadBytes, changeBytes          = 25, 36
	recordBytes, recordNameBytes        = 44, 12
	leasedFlag, holdKind         uint32 = 8, 1 << 30
)

// decodeHolds decodes the reply of holdlist.lua: the records, without what is needed to
// change them, and the instant of the server. ok is false if another program wrote the
// value.
func decodeHolds(b []byte) (ledger algo.Ledger, t int64, ok bool) {
	if len(b) < 8 {
		return ledger, 0, false
	}
	t = doubleAt(b, 0)
	if b = b[8:]; len(b) == 0 {
		return ledger, t, true
	}
	kind, held := b[0], b[1:]
	if kind == 's' {
		if held = heldPart(held); held == nil {
			return ledger, t, true
		}
	}
	return readRecords(held, t)
}

// heldPart returns the holds in a value, or nil if it has none.
func heldPart(value []byte) []byte {
	switch {
	case len(value) > valueBytes && value[0] == heldFormat:
		return value[valueBytes:]
	case len(value) > heldSmallBytes && value[0] == heldLogFormat:
		size := int(binary.LittleEndian.Uint32(value[5:]))
		if rest := value[heldSmallBytes:]; size <= len(rest) {
			return rest[:size]
		}
		return value[:0] // not valid
	}
	return nil
}

// readRecords reads the records of the holds.
func readRecords(b []byte, t int64) (ledger algo.Ledger, _ int64, ok bool) {
	if len(b) < holdHeadBytes {
		return ledger, t, false
	}
	at := holdHeadBytes + int(binary.LittleEndian.Uint32(b[21:]))*changeBytes
	if uint32(b[0]) >= leasedFlag {
		at += 8
	}
	if at > len(b) || (len(b)-at)%recordBytes != 0 {
		return ledger, t, false
	}
	for b = b[at:]; len(b) > 0; b = b[recordBytes:] {
		h := algo.Hold{Deadline: doubleAt(b, 24), ChargedAt: doubleAt(b, 32)}
		copy(h.ID[:], b[:recordNameBytes])
		h.Set(doubleAt(b, 16), algo.HoldKind(binary.LittleEndian.Uint32(b[40:])/holdKind))
		ledger.Add(h)
	}
	return ledger, t, true
}

// doubleAt returns the number that a script has packed as a double at b[i:].
func doubleAt(b []byte, i int) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64(b[i:])))
}

var _ headgate.HoldLister = (*rule)(nil)

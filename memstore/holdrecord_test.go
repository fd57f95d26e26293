package memstore

import (
	"testing"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// An open hold needs at most the memory that is counted for it.
func TestSizeOfHold(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(algo.Hold{}); got > holdBytes {
		t.Errorf("got %d bytes want at most %d", got, holdBytes)
	}
}

// The record of a hold replaces that of an earlier hold with the same id, and needs no
// further memory.
func TestRecordIsReplaced(t *testing.T) {
	t.Parallel()
	s := New(nil)
	l, err := headgate.New(s, headgate.MustPolicy("10/1h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for range 100 {
		h, err := headgate.HoldAllAt(t.Context(), now, &headgate.HoldOptions{ID: "id", TTL: time.Minute}, headgate.Check{Limiter: l, Key: "key", Cost: 1})
		if err != nil || h.Replayed() {
			t.Fatalf("got %+v, error %v want a new hold", h, err)
		}
		if _, err := h.CommitAt(t.Context(), now, 0); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	if got := s.logs.bytes.Load(); got != endedKeyBytes+recordBytes {
		t.Errorf("got %d bytes in use want %d", got, endedKeyBytes+recordBytes)
	}
}

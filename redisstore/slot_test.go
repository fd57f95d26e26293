package redisstore

import (
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// The check value of the CRC, and the slots that the test servers compute.
func TestSlotOf(t *testing.T) {
	if got := slotOf("123456789"); got != 0x31c3&0x3fff {
		t.Errorf("slot of 123456789: got %#x want %#x", got, 0x31c3&0x3fff)
	}
	for _, tag := range []string{"a", "kJ3-_x", "user:7", "0123456789abcdefghijkl"} {
		if got, want := int(slotOf(tag)), testserver.Slot("hg:{"+tag+"}:rest"); got != want {
			t.Errorf("slot of %q: got %d want %d", tag, got, want)
		}
	}
}

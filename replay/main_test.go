package replay

import (
	"testing"

	"go.uber.org/goleak"
)

// No replay leaves a goroutine behind, however it ends.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

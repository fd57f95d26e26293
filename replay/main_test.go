package replay

import (
	"testing"

	"github.com/headgate/headgate/internal/leaktest"
)

// TestMain fails if a goroutine of a replay is left.
func TestMain(m *testing.M) { leaktest.Main(m) }

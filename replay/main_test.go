package replay

import (
	"testing"

	"github.com/headgate/headgate/internal/leaktest"
)

// No replay leaves a goroutine behind, however it ends.
func TestMain(m *testing.M) { leaktest.Main(m) }

// Package diagnosis defines the result of a store check. The stores export its types
// under their own names.
package diagnosis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// Finding is the result of one check of a store. It contains no password.
type Finding struct {
	Check  string `json:"check"` // the name of the check: connection, version, eviction …
	Level  Level  `json:"level"`
	Says   string `json:"says"`             // the state that was found, and its cost
	Advice string `json:"advice,omitempty"` // how to fix it; empty if nothing needs a fix
}

// Level is the severity of a [Finding].
type Level string

// The levels of a finding.
const (
	Fine    Level = "ok"
	Warning Level = "warning" // decisions work, at a cost that the finding names
	Failing Level = "error"   // decisions fail, or will fail
)

// OfError returns the finding of a failed check: the text of the error without prefix,
// and the advice of a [headgate.StoreError].
func OfError(check string, level Level, err error, prefix string) Finding {
	var known *headgate.StoreError
	if !errors.As(err, &known) {
		return Finding{Check: check, Level: level, Says: err.Error()}
	}
	bare := *known
	bare.Advice = ""
	return Finding{Check: check, Level: level, Says: strings.TrimPrefix(bare.Error(), prefix), Advice: known.Advice}
}

// OfLatency returns the latency finding and the median of the decision times. It sorts
// took, which must not be empty.
func OfLatency(took []time.Duration) (f Finding, median time.Duration) {
	slices.Sort(took)
	median, slowest := took[len(took)/2], took[len(took)-1]
	const unit = 10 * time.Microsecond
	says := fmt.Sprintf("a decision takes %v, the slowest of %d %v", median.Round(unit), len(took), slowest.Round(unit))
	return Finding{Check: "latency", Level: Fine, Says: says}, median
}

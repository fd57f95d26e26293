// Package diagnosis defines the result of a store check. The packages of the stores
// export its types under other names.
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
	Check  string `json:"check"` // name of the check: connection, version, eviction …
	Level  Level  `json:"level"`
	Says   string `json:"says"`             // state that the check found, and its cost
	Advice string `json:"advice,omitempty"` // how to solve the problem; empty if there is none
}

// Level is the severity of a [Finding].
type Level string

// The levels of a finding.
const (
	Fine    Level = "ok"
	Warning Level = "warning" // decisions work, but at a cost that the finding describes
	Failing Level = "error"   // decisions fail, or will fail later
)

// OfError returns the finding of a failed check. Its text is the text of the error
// without prefix; its advice is that of a [headgate.StoreError].
func OfError(check string, level Level, err error, prefix string) Finding {
	var known *headgate.StoreError
	if !errors.As(err, &known) {
		return Finding{Check: check, Level: level, Says: err.Error()}
	}
	bare := *known
	bare.Advice = ""
	return Finding{Check: check, Level: level, Says: strings.TrimPrefix(bare.Error(), prefix), Advice: known.Advice}
}

// OfLatency returns the finding of the latency check and the median of the decision
// times in took. It sorts took, which must not be empty.
func OfLatency(took []time.Duration) (f Finding, median time.Duration) {
	slices.Sort(took)
	median, slowest := took[len(took)/2], took[len(took)-1]
	const unit = 10 * time.Microsecond
	says := fmt.Sprintf("a decision takes %v, the slowest of %d %v", median.Round(unit), len(took), slowest.Round(unit))
	return Finding{Check: "latency", Level: Fine, Says: says}, median
}

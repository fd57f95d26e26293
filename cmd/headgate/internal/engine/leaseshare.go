package engine

import (
	"fmt"
	"strconv"
	"strings"
)

// LeaseShare is the share of a lease in percent: 1 to 50; see [headgate.LeaseSettings].
// Its text form is “10%”.
type LeaseShare int

// ParseLeaseShare parses a whole percentage from 1% to 50%.
func ParseLeaseShare(text string) (LeaseShare, error) {
	number, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(number, 10, 8)
	if !ok || err != nil || n < 1 || n > 50 {
		return 0, fmt.Errorf("%.20q is not the share of a lease; must be a whole percentage from 1%% to 50%%, such as 10%%", text)
	}
	return LeaseShare(n), nil
}

// String returns the text that [ParseLeaseShare] parses.
func (s LeaseShare) String() string { return strconv.Itoa(int(s)) + "%" }

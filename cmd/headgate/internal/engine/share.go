package engine

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// Share is a part of all keys, in millionths: 250,000 is a quarter. It is written “25%”.
type Percent int32

// All is every key.
const All Percent = 1_000_000

// ParseShare reads a percentage, from 0% to 100%, with up to four digits behind a point.
func ParsePercent(text string) (Percent, error) {
	wrong := fmt.Errorf("%.20q is no share; write a percentage from 0%% to 100%%, such as 25%% or 0.1%%", text)
	number, ok := strings.CutSuffix(text, "%")
	whole, fraction, point := strings.Cut(number, ".")
	if !ok || whole == "" || point && fraction == "" || len(fraction) > 4 || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, wrong
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 4-len(fraction)), 10, 32)
	if err != nil || Percent(n) > All {
		return 0, wrong
	}
	return Percent(n), nil
}

// String writes the share so that [ParseShare] reads it back.
func (s Percent) String() string {
	text := strconv.Itoa(int(s / 10_000))
	if rest := int(s % 10_000); rest != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%04d", rest), "0")
	}
	return text + "%"
}

func (s Percent) validate() error {
	if s < 0 || s > All {
		return fmt.Errorf("%w: a share of %d millionths; accepted are 0 to 1000000", headgate.ErrInvalidPolicy, s)
	}
	return nil
}

// of64 is the share of 2^64, rounded down. All is not asked for: whoever enforces all keys does not look at places.
func (s Percent) of64() uint64 {
	part, _ := bits.Div64(uint64(s)%uint64(All), 0, uint64(All))
	return part
}

// place is where a key stands among all keys of a policy, even over the range: FNV-1a of both, mixed by the end of MurmurHash3. It is
// the same in every process and version, or a client would be treated differently by each. It is no secret: whoever can choose
// keys can choose its place.
func place(policy, key string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(policy) {
		h = (h ^ uint64(policy[i])) * prime
	}
	h = (h ^ 0x1ff) * prime // no byte: the name ends here
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Enforcement says whether answers count at all. The zero value means [On].
type Enforcement string

// What can be enforced.
const (
	On     Enforcement = "on"     // as the policies say
	Shadow Enforcement = "shadow" // every policy and every check only watches: it counts, and all are admitted
	// Off is the switch to throw when limits do harm: everything is admitted, nothing is charged or given back, and the store is not
	// asked. Requests that make no sense are still refused. Only a reset is done as ever.
	Off Enforcement = "off"
)

func (e Enforcement) validate() error {
	switch e {
	case "", On, Shadow, Off:
		return nil
	}
	return fmt.Errorf("engine: %w: enforcement is %.20q; accepted are on, shadow and off", headgate.ErrInvalidPolicy, string(e))
}

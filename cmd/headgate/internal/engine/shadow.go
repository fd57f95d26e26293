package engine

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// Percent is a percentage of all keys, in millionths: 250,000 means 25%. Its text form
// is “25%”.
type Percent int32

// All means all keys (100%).
const All Percent = 1_000_000

// ParsePercent parses a percentage from 0% to 100%, with up to four decimal places.
func ParsePercent(text string) (Percent, error) {
	invalid := fmt.Errorf("invalid percentage %.20q; must be 0%% to 100%%, such as 25%% or 0.1%%", text)
	number, ok := strings.CutSuffix(text, "%")
	whole, fraction, point := strings.Cut(number, ".")
	if !ok || whole == "" || point && fraction == "" || len(fraction) > 4 || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, invalid
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 4-len(fraction)), 10, 32)
	if err != nil || Percent(n) > All {
		return 0, invalid
	}
	return Percent(n), nil
}

// String returns the text that [ParsePercent] parses.
func (s Percent) String() string {
	text := strconv.Itoa(int(s / 10_000))
	if rest := int(s % 10_000); rest != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%04d", rest), "0")
	}
	return text + "%"
}

func (s Percent) validate() error {
	if s < 0 || s > All {
		return fmt.Errorf("%w: shadow is %d millionths; must be 0 to 1000000", headgate.ErrInvalidPolicy, s)
	}
	return nil
}

// unitsLeft returns the maximum number of units that a key with the given capacity has
// left when it has used at least this share of them. For 0 it is -1: no key is counted.
func (s Percent) unitsLeft(capacity int64) int64 {
	if s == 0 {
		return -1
	}
	high, low := bits.Mul64(uint64(capacity), uint64(All-s))
	left, _ := bits.Div64(high, low, uint64(All))
	return int64(left)
}

// threshold returns the fraction s of 2^64, rounded down. For All the result is 0,
// which is never used, because a policy that is enforced for all keys does not compare
// hashes.
func (s Percent) threshold() uint64 {
	part, _ := bits.Div64(uint64(s)%uint64(All), 0, uint64(All))
	return part
}

// hashKey returns a uniformly distributed hash of a policy's name and a key: FNV-1a
// with the finalizer of MurmurHash3. It must be the same in every process and version,
// because otherwise each process would select different keys. The hash is not secret,
// so a client that chooses its keys can choose whether the policy is enforced for them.
func hashKey(policy, key string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(policy) {
		h = (h ^ uint64(policy[i])) * prime
	}
	h = (h ^ 0x1ff) * prime // separates name and key; 0x1ff is not the value of a byte
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Enforcement is whether requests can be denied. The zero value means [On].
type Enforcement string

// The values of [Enforcement].
const (
	On     Enforcement = "on"     // each policy is enforced or in shadow mode, as configured
	Shadow Enforcement = "shadow" // all policies and checks in shadow mode: count, never deny
	// Off is the emergency bypass: every request is allowed, nothing is charged or
	// refunded, and the store is not used. Exceptions: invalid requests are still
	// rejected, and a reset works as usual.
	Off Enforcement = "off"
)

func (e Enforcement) validate() error {
	switch e {
	case "", On, Shadow, Off:
		return nil
	}
	return fmt.Errorf("%w: enforcement is %.20q; must be on, shadow or off", headgate.ErrInvalidPolicy, string(e))
}

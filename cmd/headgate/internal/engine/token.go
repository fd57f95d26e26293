package engine

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/headgate/headgate"
)

const (
	tokenVersion = 1    // first byte of the tokens of this version
	maxReason    = 0x7f // maximum of a StoreErrorReason in a token, which is one byte
)

// Token returns the hold as a text that [ParseHold] accepts, in every instance. It has
// all that the instance needs to find the hold in the store: the id, the deadline, and
// for each check the policy or limit, the key and the amount. It is not secret and not
// signed: a client with a forged token can do what it can do with a forged request.
func (h *ClientHold) Token() string {
	b := append([]byte{tokenVersion}, h.ID[:]...)
	b = binary.AppendUvarint(append(b, byte(h.Degraded)), uint64(h.Expires))
	b = binary.AppendUvarint(b, uint64(len(h.Checks)))
	for i := range h.Checks {
		c := &h.Checks[i]
		b = appendText(b, c.Policy)
		if c.Policy == "" {
			b = appendText(appendText(b, c.Limit), c.Algorithm)
		}
		b = appendText(b, c.Key)
		b = binary.AppendUvarint(b, uint64(c.Cost))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// CheckSize returns a [*CheckError] if a request that commits or extends h could be
// longer than the maximum in bytes, so that a client could not end the hold. It is for a
// hold that is not open yet. It allocates only an error.
func (h *ClientHold) CheckSize(maxRequest int) error {
	const rest, restOfCheck = 64, 32 // bytes of the request outside the token; bytes of one actual cost
	bound := len(h.ID) + 12          // version, reason, deadline and number of checks
	for i := range h.Checks {
		c := &h.Checks[i]
		bound += len(c.Policy) + len(c.Limit) + len(c.Algorithm) + len(c.Key) + 4*binary.MaxVarintLen16 + binary.MaxVarintLen64
	}
	if n := rest + base64.RawURLEncoding.EncodedLen(bound) + restOfCheck*len(h.Checks); n > maxRequest {
		return &CheckError{Index: -1, Field: "checks", Err: fmt.Errorf("%w: the commit of this hold would have up to %d bytes;"+
			" must be at most %d; send fewer checks, or shorter keys", ErrInvalidRequest, n, maxRequest)}
	}
	return nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ParseHold reads a token of [ClientHold.Token]. It accepts at most maxChecks checks. The
// checks are validated when the hold is used, like those of a request. The error matches
// [ErrInvalidRequest], and contains no part of the token, which contains keys.
func ParseHold(token string, maxChecks int) (ClientHold, error) {
	if strings.ContainsAny(token, "\r\n") { // which package base64 leaves out
		return ClientHold{}, errToken()
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	var h ClientHold
	if err != nil || len(b) < 1+len(h.ID) {
		return h, errToken()
	}
	if b[0] != tokenVersion {
		return h, fmt.Errorf("%w: the token of the hold has version %d; must be %d: open the hold with this version of the service",
			ErrInvalidRequest, b[0], tokenVersion)
	}
	copy(h.ID[:], b[1:])
	r := tokenReader{rest: b[1+len(h.ID):]}
	h.Degraded = headgate.StoreErrorReason(r.number(maxReason))
	h.Expires = headgate.Instant(r.number(uint64(headgate.MaxInstant)))
	n := r.number(uint64(maxChecks))
	for range n {
		h.Checks = append(h.Checks, r.check())
	}
	if r.invalid || n == 0 || len(r.rest) > 0 {
		return ClientHold{}, errToken()
	}
	return h, nil
}

func errToken() error {
	return fmt.Errorf("%w: the token of the hold is invalid; send the hold in the response of /v1/hold or HG.HOLD unchanged", ErrInvalidRequest)
}

// tokenReader reads the binary form of a token. After invalid input, it returns zero
// values.
type tokenReader struct {
	rest    []byte
	invalid bool
}

// number reads a number from 0 to max.
func (r *tokenReader) number(max uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > max {
		r.rest, r.invalid = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *tokenReader) text() string {
	n := r.number(uint64(len(r.rest)))
	if n > uint64(len(r.rest)) {
		r.rest, r.invalid = nil, true
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

// check reads a check.
func (r *tokenReader) check() (c Check) {
	if c.Policy = r.text(); c.Policy == "" {
		c.Limit, c.Algorithm = r.text(), r.text()
	}
	c.Key = r.text()
	c.Cost = int64(r.number(headgate.MaxWindowUnits))
	return c
}

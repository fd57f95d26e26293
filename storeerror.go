package headgate

import "fmt"

// StoreErrorReason is why a store could not decide. The zero value is [ReasonNone].
type StoreErrorReason uint8

// The reasons of a store that is reached over a network.
const (
	// ReasonNone means that the store decided.
	ReasonNone StoreErrorReason = iota
	// ReasonUnreachable means that there is no connection, or that it broke before the
	// request was sent. Nothing was spent.
	ReasonUnreachable
	// ReasonTimedOut means that no reply arrived in time, or that the connection broke
	// before the reply. Whether units were spent is unknown.
	ReasonTimedOut
	// ReasonRefused means that the store replied with an error: wrong credentials, a
	// read-only replica, out of memory or still loading.
	ReasonRefused
	// ReasonWrongType means that the key contains a value that this program did not
	// write.
	ReasonWrongType
	// ReasonOverloaded means that too many callers already wait for the store or for
	// this key. Nothing was spent.
	ReasonOverloaded
	// ReasonBreakerOpen means that the circuit breaker is open: the store failed too
	// often and is not called until a probe succeeds. Nothing was spent.
	ReasonBreakerOpen
)

var reasonNames = [...]string{"none", "unreachable", "timed out", "refused", "wrong type", "overloaded", "breaker open"}

// String returns the reason in lower case, "none" for the zero value.
func (r StoreErrorReason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// StoreError is the error of a store that could not decide. It matches
// [ErrStoreUnavailable] and, by errors.Is and errors.As, its cause. It contains no key
// and no password.
type StoreError struct {
	Store  string           // the store: redis, memcached
	Reason StoreErrorReason // never ReasonNone
	Advice string           // the next step; may be empty
	Err    error            // the cause; may be nil
}

// Error returns the store, the reason, the cause and the advice.
func (e *StoreError) Error() string {
	text := fmt.Sprintf("headgate: %s: %s", e.Store, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

// Is reports whether target is [ErrStoreUnavailable].
func (e *StoreError) Is(target error) bool { return target == ErrStoreUnavailable }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// OnStoreError is the failure mode of a policy: what decides while the store cannot.
// Package fallback implements it for any store.
type OnStoreError string

// The failure modes. The zero value means [FailClosed].
const (
	FailClosed OnStoreError = "closed" // return the error; the caller decides (a service replies 503)
	FailOpen   OnStoreError = "open"   // allow every request
	FailLocal  OnStoreError = "local"  // a limiter in this process decides, with a share of the limit
)

// Validate returns an error if the mode is unknown.
func (o OnStoreError) Validate() error {
	switch o {
	case "", FailClosed, FailOpen, FailLocal:
		return nil
	}
	return fmt.Errorf("%w: OnStoreError is %.40q; must be closed, open or local", ErrInvalidPolicy, string(o))
}

// Closed reports whether the mode is [FailClosed].
func (o OnStoreError) Closed() bool { return o == "" || o == FailClosed }

// StoreObserver receives an event when a store becomes unavailable and when it has
// recovered: one for each change, not for each request. Its method is called
// synchronously and should return fast.
type StoreObserver interface {
	ObserveStore(StoreEvent)
}

// StoreEvent is one change of a store's availability.
type StoreEvent struct {
	Unavailable bool             // true: the store is no longer called; false: it has recovered
	Reason      StoreErrorReason // why it failed; ReasonNone after recovery
	Err         error            // the last failure; nil after recovery
}

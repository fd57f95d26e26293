package headgate

import "fmt"

// StoreErrorReason is the reason why a store could not decide. The zero value is
// [ReasonNone].
type StoreErrorReason uint8

// The reasons why a store that is reached over a network cannot decide.
const (
	// ReasonNone means that there was no error: the store decided.
	ReasonNone StoreErrorReason = iota
	// ReasonUnreachable means that there is no connection to the store, or that the
	// connection broke before the request was sent. Nothing was spent.
	ReasonUnreachable
	// ReasonTimedOut means that no reply arrived in time, or that the connection broke
	// before the reply. It is unknown whether units were spent.
	ReasonTimedOut
	// ReasonRefused means that the store replied with an error, for example for wrong
	// credentials, on a read-only replica, without free memory or during startup.
	ReasonRefused
	// ReasonWrongType means that the key holds a value that was not written by this
	// program.
	ReasonWrongType
	// ReasonOverloaded means that too many callers already wait for the store or for
	// this key. Nothing was spent.
	ReasonOverloaded
	// ReasonBreakerOpen means that the circuit breaker is open: the store failed too
	// often and is not called until a probe succeeds. Nothing was spent.
	ReasonBreakerOpen
)

var reasonNames = [...]string{"none", "unreachable", "timed out", "refused", "wrong type", "overloaded", "breaker open"}

// String returns the reason in lower case. The zero value is “none”.
func (r StoreErrorReason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// StoreError is the error of a store that could not decide. It matches
// [ErrStoreUnavailable], and errors.Is and errors.As also find its cause. It contains
// no key and no password.
type StoreError struct {
	Store  string           // name of the store: redis or memcached
	Reason StoreErrorReason // reason of the failure; never ReasonNone
	Advice string           // suggested next step; may be empty
	Err    error            // cause; may be nil
}

// Error returns a text with the store, the reason, the cause and the advice.
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

// OnStoreError is the failure mode of a policy: how requests are decided while the
// store cannot decide them. Package fallback implements the modes for any store.
type OnStoreError string

// The failure modes. The zero value means [FailClosed].
const (
	FailClosed OnStoreError = "closed" // return the error; the caller decides (a service replies 503)
	FailOpen   OnStoreError = "open"   // allow every request
	FailLocal  OnStoreError = "local"  // a limiter in this process decides, with a part of the limit
)

// Validate returns an error if the mode is unknown.
func (o OnStoreError) Validate() error {
	switch o {
	case "", FailClosed, FailOpen, FailLocal:
		return nil
	}
	return fmt.Errorf("%w: OnStoreError is %.40q; must be closed, open or local", ErrInvalidPolicy, string(o))
}

// Closed reports whether the failure mode is [FailClosed] or the zero value.
func (o OnStoreError) Closed() bool { return o == "" || o == FailClosed }

// StoreObserver receives an event when a store, or one of its servers, becomes
// unavailable and when it recovers, but not for each request. The events of one server
// are in order. ObserveStore may be called concurrently for different servers and should
// return fast.
type StoreObserver interface {
	ObserveStore(StoreEvent)
}

// StoreEvent reports that a store, or one of its servers, became unavailable or
// recovered.
type StoreEvent struct {
	Node        string           // name of the server: see NodeOf; empty if the store does not name its servers
	Unavailable bool             // true if the store is no longer called, false if it has recovered
	Reason      StoreErrorReason // reason of the failure; ReasonNone after recovery
	Err         error            // last error; nil after recovery
}

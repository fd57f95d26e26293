package headgate

import "fmt"

// Trouble is why a store could not decide. The zero value is none.
type StoreErrorReason uint8

// The troubles of a store that is asked over a network.
const (
	ReasonNone        StoreErrorReason = iota
	ReasonUnreachable                  // no connection, or it broke before the request was sent: nothing was spent
	ReasonTimedOut                     // no answer in time, or the connection broke while it was awaited: whether it was spent is unknown
	ReasonRefused                      // the store answered that it does not do this: credentials, a replica, no memory, still loading
	ReasonWrongType                    // what lies under the key is not a state of this program's making
	ReasonOverloaded                   // too many callers wait for the store already, or for this key: nothing was spent
	ReasonBreakerOpen                  // the store failed too often just now and is not asked until a probe succeeds: nothing was spent
)

var troubleNames = [...]string{"none", "unreachable", "timed out", "refused", "wrong type", "overloaded", "breaker open"}

// String is the trouble in lower case; "none" for the zero value.
func (t StoreErrorReason) String() string {
	if int(t) < len(troubleNames) {
		return troubleNames[t]
	}
	return "unknown"
}

// StoreError says why a store could not decide. It matches [ErrStoreUnavailable], and its cause by errors.As and errors.Is. It
// holds no key and no password.
type StoreError struct {
	Store  string           // which one: redis, memcached
	Reason StoreErrorReason // what happened; never ReasonNone
	Advice string           // what to do about it; may be empty
	Err    error            // the cause; may be nil
}

// Error names the store, the trouble, the cause and what to do.
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

// Unwrap is the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// OnStoreError says what holds while the store cannot decide. Package fallback makes it so, for any store.
type OnStoreError string

// What can hold while the store is away. The zero value means [FailClosed].
const (
	FailClosed OnStoreError = "closed" // the error is returned, and the caller decides: a service answers 503
	FailOpen   OnStoreError = "open"   // everything is admitted
	FailLocal  OnStoreError = "local"  // a limiter in this process decides, on a share of the limit
)

// Validate reports a name that is none of them.
func (o OnStoreError) Validate() error {
	switch o {
	case "", FailClosed, FailOpen, FailLocal:
		return nil
	}
	return fmt.Errorf("%w: OnStoreError is %.40q; accepted are closed, open and local", ErrInvalidPolicy, string(o))
}

// Closed reports whether the error is to be returned.
func (o OnStoreError) Closed() bool { return o == "" || o == FailClosed }

// StoreObserver hears when a store goes away and when it is back: each change once, not each request. Its method is called
// synchronously; it should return fast.
type StoreObserver interface {
	ObserveStore(StoreEvent)
}

// StoreEvent is one change.
type StoreEvent struct {
	Unavailable bool             // the store is no longer asked; false: it is again
	Reason      StoreErrorReason // what it failed of; ReasonNone when it is back
	Err         error            // the last failure; nil when it is back
}

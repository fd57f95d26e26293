package loginguard

import "time"

// Observer receives an event for every attempt, for example to raise alerts.
// ObserveAttempt is called synchronously by concurrent requests, so it should return
// fast.
type Observer interface {
	ObserveAttempt(Event)
}

// EventKind is the outcome of an attempt, as the observer receives it.
type EventKind string

// The kinds of events.
const (
	// KindDenied: a limit denied the attempt; the handler did not run.
	KindDenied EventKind = "denied"
	// KindFailed: the handler ran and the guess was wrong. The attempt stays charged.
	KindFailed EventKind = "failed"
	// KindSucceeded: the handler ran and the guess was right. The charge is cancelled.
	KindSucceeded EventKind = "succeeded"
	// KindUnknown: the handler panicked, responded with 5xx, hijacked the connection, or
	// returned without a response after the client disconnected. The attempt stays
	// charged.
	KindUnknown EventKind = "unknown"
	// KindUnconfirmed: the response status was that of a success, but the account has
	// had too many such successes. The attempt stays charged.
	KindUnconfirmed EventKind = "unconfirmed"
	// KindInvalid: the request was too large, had an unsupported content type, or named
	// several accounts. The handler did not run.
	KindInvalid EventKind = "invalid"
	// KindError: the store returned an error for the charge or for its cancellation; see
	// Event.Err.
	KindError EventKind = "error"
)

// The scopes of limits, as listed in Event.DeniedBy.
const (
	ScopePair    = "pair"
	ScopeAccount = "account"
	ScopeAddress = "address"
	ScopeSubnet  = "subnet"
	ScopeTotal   = "total"
)

// Event describes one attempt. Account, Address and Subnet are keyed hashes of 32
// hexadecimal digits; the same value gives the same hash under the same secret. With
// [Options.PlainEvents] they are the normalised account, the address and the network
// instead. Account is empty if the attempt has none.
type Event struct {
	Form       string // the guard's name
	Kind       EventKind
	Account    string
	Address    string
	Subnet     string
	Known      bool          // whether the account is known from this address or device
	DeniedBy   []string      // the scopes of the limits that denied, without duplicates
	RetryAfter time.Duration // for a denied attempt, the wait before the next attempt
	Err        error         // for KindError, the store's error; contains no key
}

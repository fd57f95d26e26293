package loginguard

import "time"

// Observer receives the outcome of every attempt, for alerts. ObserveAttempt is called
// synchronously and concurrently; it should return fast.
type Observer interface {
	ObserveAttempt(Event)
}

// EventKind is the outcome of an attempt.
type EventKind string

// The kinds of events.
const (
	// KindDenied: a limit was exceeded; the handler did not run.
	KindDenied EventKind = "denied"
	// KindFailed: the handler ran and the guess was wrong. The attempt stays charged.
	KindFailed EventKind = "failed"
	// KindSucceeded: the handler ran and the guess was right. The attempt is refunded.
	KindSucceeded EventKind = "succeeded"
	// KindUnknown: the handler panicked, responded with 5xx, hijacked the connection, or
	// returned without a response after the client disconnected. The attempt stays
	// charged.
	KindUnknown EventKind = "unknown"
	// KindUnconfirmed: a success by status only, after too many of them for one
	// account. The attempt stays charged.
	KindUnconfirmed EventKind = "unconfirmed"
	// KindInvalid: the request was too large, had an unsupported content type, or named
	// several accounts. The handler did not run.
	KindInvalid EventKind = "invalid"
	// KindError: the store returned an error for the charge or the refund; see Event.Err.
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

// Event is one attempt. Account, Address and Subnet are keyed hashes of 32 hexadecimal
// digits, which are the same for the same subject and secret. With
// [Options.PlainEvents] they are the normalised account, the address and the network.
// They are empty if unknown.
type Event struct {
	Form       string // the guard's name
	Kind       EventKind
	Account    string
	Address    string
	Subnet     string
	Known      bool          // the account is known from this address or device
	DeniedBy   []string      // the scopes of the limits that denied, without duplicates
	RetryAfter time.Duration // of a denial
	Err        error         // of KindError; contains no key
}

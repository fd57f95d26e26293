package loginguard

import "time"

// Observer hears what became of every try, for alerts. Its method is called synchronously, possibly by many at once; it should
// return fast.
type Observer interface {
	ObserveAttempt(Event)
}

// Kind is what became of a try.
type EventKind string

// The kinds of events.
const (
	KindDenied      EventKind = "denied"    // a limit was reached; the handler did not run
	KindFailed      EventKind = "failed"    // the handler ran and said no; it stays charged
	KindSucceeded   EventKind = "succeeded" // the handler ran and said yes; it is given back
	KindUnknown     EventKind = "neither"   // the handler panicked or answered 5xx; it stays charged
	KindUnconfirmed EventKind = "doubted"   // a success by its status alone, too many of one account; it stays charged
	KindInvalid     EventKind = "refused"   // too large, of a type that is not read, or names several accounts; the handler did not run
	KindError       EventKind = "error"     // the store could not decide, or not give back: Err says why
)

// The limits that Event.DeniedBy names.
const (
	ScopePair    = "pair"
	ScopeAccount = "account"
	ScopeAddress = "address"
	ScopeSubnet  = "subnet"
	ScopeTotal   = "total"
)

// Event is one try. Account, Address and Subnet are keyed hashes, of 32 hexadecimal digits, the same for the same subject as long
// as the secret stays; with [Options.Clear] they are the account as normalised, the address and the network. They are empty where
// they are not known.
type Event struct {
	Form       string // the guard's name
	Kind       EventKind
	Account    string
	Address    string
	Subnet     string
	Known      bool          // the account was logged in to before from here
	DeniedBy   []string      // which limits denied, each once: pair, account, address, subnet, total
	RetryAfter time.Duration // of a denial
	Err        error         // of an error; holds no key
}

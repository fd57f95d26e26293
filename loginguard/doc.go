// Package loginguard protects forms against guessing: logins, password resets, one-time
// codes. Two lines protect a handler:
//
//	guard, err := loginguard.New(store, nil)
//	mux.Handle("POST /login", guard.Protect(login))
//
// An attempt is charged before the handler runs, atomically on limits for its address,
// its network, its account, and the pair of account and address. Successful attempts
// are refunded, so only failures cost anything. A thousand simultaneous guesses get no
// further than a thousand sequential ones. The limits of a pair and of an account are a
// [Lockout]: some attempts are free, then each wait is longer than the previous one.
//
// Attackers at other addresses cannot lock an account's owner out. An address from
// which an account was logged in to before is known, and only its own failures count
// against a known pair. See [Options.DeviceCookie] for owners who change addresses, or
// who share one with an attacker.
//
// # The handler must report failures
//
// By default a status of 200 to 399 is a success. A handler that shows the form again
// with status 200, or redirects back to it, must report the failure: call [Failed] (and
// [Succeeded] on success), or set [Options.Outcome]. The guard warns once if no attempt
// fails. It accepts only a limited number of successes of one account by status, 20
// immediately and 20 per hour. Neither protects a handler that reports wrong outcomes.
//
// # What is stored
//
// All state is in the store, under keyed hashes. No key, event or error contains an
// account name or an address, unless [Options.PlainEvents] is set. Processes that share
// a store must share [Options.Secret].
package loginguard

// Package loginguard protects forms against guessing: logins, password resets, one-time
// codes. Two lines protect a handler:
//
//	guard, err := loginguard.New(store, nil)
//	mux.Handle("POST /login", guard.Protect(login))
//
// An attempt is charged before the handler runs, atomically on limits for its address,
// its network, its account, and the pair of account and address. The charge is a hold,
// which a success cancels, so only failures use up the limits. A thousand simultaneous
// guesses get no further than a thousand sequential ones. The limits of a pair and of
// an account have the form of a [Lockout]: the first attempts need no wait, then each
// wait is longer than the previous one.
//
// Attackers at other addresses cannot lock the owner of an account out. After a
// successful login, the pair of account and address is a known pair. Only failures of
// that account from that address count against a known pair. See [Options.DeviceCookie]
// for owners whose address changes, or who share an address with an attacker.
//
// # The handler must report failures
//
// By default, a response status of 200 to 399 counts as a success. A handler that
// responds to a wrong guess by showing the form again with status 200, or by
// redirecting back to the form, must report the failure: call [Failed] (and [Succeeded]
// on success), or set [Options.Outcome]. The guard calls [Options.Warn] once if no
// attempt fails. It accepts only a limited number of successes by status for one
// account: a burst of 20, then 20 per hour. Neither measure protects a handler that
// reports wrong outcomes.
//
// # What is stored
//
// All state is in the store, under keyed hashes. No key, event or error contains an
// account name or an address, unless [Options.PlainEvents] is set. Processes that share
// a store must share [Options.Secret].
package loginguard

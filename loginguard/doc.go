// Package loginguard protects forms that somebody may guess at: logins, password resets, one-time codes. Two lines put it before
// a handler:
//
//	guard, err := loginguard.New(store, nil)
//	mux.Handle("POST /login", guard.Protect(login))
//
// A try is charged before the handler runs, on limits for its address, its network, its account and the pair of both, all or
// none. What succeeds is given back, so only failures cost anything, and a thousand guesses at once get no further than a
// thousand in a row. The limits of a pair and of an account are a [Lockout]: some tries are free, then each has to wait longer
// than the one before.
//
// Nobody is locked out by somebody else: an address from which an account was logged in to before is known, and a known pair
// answers for its own failures alone. See [Options.DeviceCookie] for owners on the move, or behind one address with an attacker.
//
// # The handler must tell failures
//
// By default a status of 200 to 399 is a success. A handler that shows the form again with status 200, or redirects back to it,
// must say so: call [Failed] (and [Succeeded] where it succeeds), or set [Options.Outcome]. The guard warns once if nothing ever
// fails, and believes few successes of one account by their status, 20 and 20 an hour more; but that is no protection against a
// handler that tells it the wrong thing.
//
// # What is kept
//
// State lies in the store, under keyed hashes: no account name and no address is in a key, an event or an error. Where many
// processes share a store, they must share [Options.Secret].
package loginguard

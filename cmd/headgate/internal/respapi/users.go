package respapi

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
)

// scopes is a set of scopes of a user, or the scope that a command requires.
type scopes uint8

const (
	checkScope scopes = 1 << iota
	refundScope
	resetScope

	allScopes = checkScope | refundScope | resetScope
)

// scopesOf converts the scopes of a token.
func scopesOf(names []access.Scope) (set scopes) {
	for scope, one := range map[access.Scope]scopes{access.Check: checkScope, access.Refund: refundScope, access.Reset: resetScope} {
		if access.Has(names, scope) {
			set |= one
		}
	}
	return set
}

// credentials are the users that AUTH accepts.
type credentials []credential

// credential has the SHA-256 digests of a user and a password. Comparing digests takes
// the same time for every length, so it does not reveal the length of the password.
type credential struct {
	user, password [sha256.Size]byte
	scopes         scopes
}

func (l credentials) match(user, password []byte) (found scopes, ok bool) {
	u, p := sha256.Sum256(user), sha256.Sum256(password)
	matched := 0
	for i := range l {
		equal := subtle.ConstantTimeCompare(u[:], l[i].user[:]) & subtle.ConstantTimeCompare(p[:], l[i].password[:])
		found |= l[i].scopes & -scopes(equal)
		matched |= equal
	}
	return found, matched == 1
}

// SetUsers replaces the users that have scopes, in addition to the one of [Options]. If
// there is none at all, no authentication is required. Connections that are authenticated
// keep their scopes.
func (h *Handler) SetUsers(users []access.Token) {
	var all credentials
	if h.password != "" {
		all = append(all, credential{sha256.Sum256([]byte(h.user)), sha256.Sum256([]byte(h.password)), allScopes})
	}
	for _, u := range users {
		all = append(all, credential{sha256.Sum256([]byte(u.Name)), sha256.Sum256([]byte(u.Secret)), scopesOf(u.Scopes)})
	}
	if all == nil {
		h.credentials.Store(nil)
		return
	}
	h.credentials.Store(&all)
}

// permits reports whether the client may run a command that requires a scope.
func (w *worker) permits(needed scopes) bool { return w.s.scopes&needed == needed }

// noPermission replies to a request whose user does not have the scope of the command.
func (w *worker) noPermission(command string) {
	w.flush()
	w.fail("NOPERM User " + w.s.user + " has no permissions to run the '" + command + "' command")
}

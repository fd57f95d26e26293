package loginguard

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/headgate/headgate"
)

// A device token consists of its expiry (8 bytes, seconds since 1970), a nonce that
// identifies the device (16 bytes), and a keyed hash of the expiry, the nonce, the form
// and the account (32 hexadecimal digits). The token does not reveal the account.
const (
	expiryBytes = 8
	nonceBytes  = 16
	digestBytes = 32
	tokenBytes  = expiryBytes + nonceBytes + digestBytes
)

// Device returns a token for the client of a successful attempt. A client that sends
// the token in [Client.Device] is known for the same account, from any address, for
// [Options.KnownFor]. If the attempt itself had a valid token, the new token identifies
// the same device. Device returns an empty string if the attempt has no account or was
// denied. It does no I/O.
func (a *Attempt) Device() string { return a.DeviceAt(time.Now()) }

// DeviceAt is like [Attempt.Device], with the given time as the current time.
func (a *Attempt) DeviceAt(now time.Time) string {
	if !a.Allowed() || a.client.Account == "" {
		return ""
	}
	token := make([]byte, expiryBytes+nonceBytes, tokenBytes)
	expiry := now.Add(a.guard.opts.KnownFor)
	binary.BigEndian.PutUint64(token, uint64(expiry.Unix()))
	if a.nonce != nil {
		copy(token[expiryBytes:], a.nonce)
	} else {
		_, _ = rand.Read(token[expiryBytes:]) // crypto/rand.Read never returns an error
	}
	token = append(token, a.guard.signature(token, a.keys.account)...)
	return base64.RawURLEncoding.EncodeToString(token)
}

// verifyToken returns the nonce of a token that is authentic, valid for this account
// and not expired at the instant now. For any other token it returns nil.
func (g *Guard) verifyToken(text, account string, now headgate.Instant) []byte {
	if len(text) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return nil
	}
	token, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(token) != tokenBytes {
		return nil
	}
	signed, signature := token[:expiryBytes+nonceBytes], token[expiryBytes+nonceBytes:]
	if !hmac.Equal(signature, []byte(g.signature(signed, account))) {
		return nil
	}
	if expiry := int64(binary.BigEndian.Uint64(signed)); wallClock(now).Unix() >= expiry {
		return nil
	}
	return signed[expiryBytes:]
}

func (g *Guard) signature(signed []byte, account string) string {
	return g.digest("token", g.opts.KnownBy, string(signed), account)
}

// wallClock returns the instant now as a time.Time, or the local time if now is
// [headgate.StoreClock]: tokens are verified without asking the store for its time.
func wallClock(now headgate.Instant) time.Time {
	if now == headgate.StoreClock {
		return time.Now()
	}
	return time.UnixMicro(int64(now))
}

// cookieToken returns the token in the request's cookie, or an empty string if there is
// none.
func (g *Guard) cookieToken(r *http.Request) string {
	if g.opts.DeviceCookie == "" {
		return ""
	}
	c, err := r.Cookie(g.opts.DeviceCookie)
	if err != nil {
		return ""
	}
	return c.Value
}

func (g *Guard) setCookie(w http.ResponseWriter, token string) {
	if token == "" {
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: g.opts.DeviceCookie, Value: token, Path: "/", MaxAge: int(g.opts.KnownFor / time.Second),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

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

// A device's token: until when it holds (8 bytes, seconds since 1970), a nonce that names the device (16), and the keyed hash of
// both, the form and the account (32 hexadecimal digits). It says nothing of the account to whoever reads it.
const (
	expiryBytes = 8
	nonceBytes  = 16
	digestBytes = 32
	tokenBytes  = expiryBytes + nonceBytes + digestBytes
)

// Device is a token for the client of a try that has just succeeded: whoever brings it again in [Client.Device] is known for the
// same account, from any address, for [Options.KnownFor]. It is the same device if this try had a token that holds. Empty for a
// try without an account, and one that was denied. No I/O.
func (a *Attempt) Device() string { return a.DeviceAt(time.Now()) }

// DeviceAt is [Attempt.Device] at the time now.
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
		_, _ = rand.Read(token[expiryBytes:]) // crypto/rand ends the program rather than fail
	}
	token = append(token, a.guard.signature(token, a.keys.account)...)
	return base64.RawURLEncoding.EncodeToString(token)
}

// device is the nonce of a token that is ours, for this account, and holds; else nil.
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

// wallClock is the instant, or this machine's time: a token is not the store's business.
func wallClock(now headgate.Instant) time.Time {
	if now == headgate.StoreClock {
		return time.Now()
	}
	return time.UnixMicro(int64(now))
}

// tokenOf is what the request's cookie says.
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

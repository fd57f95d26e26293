package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/respcheck"
)

const storeName = "redis"

func newStoreError(reason headgate.StoreErrorReason, advice string, err error) *headgate.StoreError {
	return &headgate.StoreError{Store: storeName, Reason: reason, Advice: advice, Err: err}
}

func errOverloaded() error {
	return newStoreError(headgate.ReasonOverloaded, "too many calls are queued, or Redis is too slow; reduce the load, or raise MaxWaiting or Timeout", nil)
}

// errNotSent is the error for a caller that stopped waiting before its operation was
// sent. If the caller canceled its own context, the error is the error of the context
// and not a store error.
func errNotSent(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("redisstore: not sent, nothing was spent: %w", ctx.Err())
	}
	return newStoreError(headgate.ReasonOverloaded, "the deadline passed before the call was sent; nothing was spent", ctx.Err())
}

func errTimedOut(err error) error {
	return newStoreError(headgate.ReasonTimedOut, "the call was sent, but no reply arrived; whether the cost was spent is unknown", err)
}

func errForeign() error {
	return newStoreError(headgate.ReasonWrongType, "the value under this key was not written by this version; use a separate namespace, or delete the key", nil)
}

func errReply(bytes int) error {
	return newStoreError(headgate.ReasonRefused, "check that the server is Redis or Valkey, 6.2 or later; whether the cost was spent is unknown",
		fmt.Errorf("unexpected script reply of %d bytes", bytes))
}

// errInvalidReply is the error for all calls whose replies were pending when the server
// sent an invalid reply. The connection was then closed.
func errInvalidReply(err error) error {
	return newStoreError(headgate.ReasonTimedOut, "the connection was closed; check that the server is Redis or Valkey, and any proxy; "+
		"whether the cost was spent is unknown", err)
}

func errVerb(v headgate.Verb) error {
	return errUnsupported("apply", fmt.Sprintf("verb is %d; must be take, peek, refund or reset", v))
}

func errOnStoreError(o headgate.OnStoreError) error {
	return errUnsupported("bind", fmt.Sprintf("OnStoreError is %.20q; must be closed; "+
		"for open or local, wrap this store with fallback.New", string(o)))
}

func errLease() error {
	return errUnsupported("bind", "the rule is leased; wrap this store with lease.New")
}

func errUnsupported(action, accepted string) error {
	return fmt.Errorf("redisstore: %s: %w: %s", action, headgate.ErrUnsupported, accepted)
}

// errHoldRequired is the error of a verb that would take units that only holds take.
func errHoldRequired(verb string) error {
	return fmt.Errorf("redisstore: %s: %w; use ApplyHolds", verb, headgate.ErrHoldRequired)
}

// retryReason is the reason why a call may be sent again.
type retryReason uint8

const (
	noRetry  retryReason = iota // do not retry: the call was or may have been executed, or would fail again
	noScript                    // the server has not cached the script
	tryAgain                    // the cluster is moving the keys to another node
	notSent                     // the call was not sent
)

func retryReasonOf(err error) retryReason {
	if err == nil {
		return noRetry
	}
	if errors.Is(err, errClosedWhileIdle) {
		return notSent
	}
	switch text := err.Error(); {
	case strings.HasPrefix(text, "NOSCRIPT"):
		return noScript
	case strings.HasPrefix(text, "TRYAGAIN"):
		return tryAgain
	}
	return noRetry
}

// instantOutside returns the server's instant in µs if the script did not execute a call
// because it lacks the windows around this instant.
func instantOutside(err error) (t int64, ok bool) {
	if err == nil {
		return 0, false
	}
	_, text, ok := strings.Cut(err.Error(), "HEADGATE_WINDOW ")
	if !ok {
		return 0, false
	}
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	t, failed := strconv.ParseInt(text[:digits], 10, 64)
	return t, failed == nil && t <= maxUnits
}

// Advice for several error replies.
const (
	adviceForeign = "the value under this key is not the state of a limit; use a separate namespace, or delete the key"
	adviceReplica = "the server is a read-only replica; use the address of the primary, or redis+sentinel://"
	adviceMemory  = "the server is out of memory; raise maxmemory, or remove other data"
	adviceACL     = "the user's ACL lacks a permission; docs/operate/stores.md lists the required ones"
)

// errorReplies lists known error replies of servers. A reply matches if it starts with
// prefix (after “ERR ” is removed) and contains the text contains. reason and advice
// are those of the resulting store error.
var errorReplies = []struct {
	prefix, contains string
	reason           headgate.StoreErrorReason
	advice           string
}{
	{"", "WRONGTYPE", headgate.ReasonWrongType, adviceForeign},
	{"", "HEADGATE_FOREIGN", headgate.ReasonWrongType, adviceForeign},
	{"LOADING", "", headgate.ReasonRefused, "the server is loading its data from disk; wait until it has finished"},
	{"", "READONLY", headgate.ReasonRefused, adviceReplica},
	{"", "read only replica", headgate.ReasonRefused, adviceReplica},
	{"OOM", "", headgate.ReasonRefused, adviceMemory},
	{"", "OOM command not allowed", headgate.ReasonRefused, adviceMemory},
	{"NOAUTH", "", headgate.ReasonRefused, "the server requires a password: redis://:password@host or redis://user:password@host"},
	{"WRONGPASS", "", headgate.ReasonRefused, "wrong username or password"},
	{"AUTH", "", headgate.ReasonRefused, "the server has no password; remove it from the URL"},
	{"", "NOPERM", headgate.ReasonRefused, adviceACL},
	{"", "The user executing the script can't", headgate.ReasonRefused, adviceACL},
	{"", "ACL failure in script", headgate.ReasonRefused, adviceACL},
	{"MASTERDOWN", "", headgate.ReasonRefused, "the server is a replica whose primary is unavailable"},
	{"NOREPLICAS", "", headgate.ReasonRefused, "the server has fewer replicas than min-replicas-to-write requires"},
	{"CLUSTERDOWN", "", headgate.ReasonRefused, "the cluster does not serve this slot; see CLUSTER INFO"},
	{"MOVED", "", headgate.ReasonRefused, "the server is a cluster node; use redis+cluster://"},
	{"CROSSSLOT", "", headgate.ReasonRefused, "the server is a cluster; use redis+cluster://"},
	{"MISCONF", "", headgate.ReasonRefused, "the server cannot save to disk and refuses writes; see its log"},
	{"BUSY", "", headgate.ReasonRefused, "the server is busy with another script"},
	{"TRYAGAIN", "", headgate.ReasonRefused, "the cluster is moving these keys; try again"},
	{"DB index", "", headgate.ReasonRefused, "the server has no database of this number; see \"databases\" in its configuration"},
	{"This instance has cluster support disabled", "", headgate.ReasonRefused, "the server is not a cluster; use redis://"},
	{"No such master", "", headgate.ReasonRefused, "the sentinels monitor no primary of this name; see SENTINEL MASTERS"},
	{"unknown command", "SENTINEL", headgate.ReasonRefused, "the server is not a sentinel; use redis:// for a single server"},
	{"unknown command", "", headgate.ReasonRefused, "check that the server is Redis or Valkey, 6.2 or later"},
}

// classify converts an error of the client to a [headgate.StoreError]. It returns a
// StoreError and ErrClosed unchanged.
func classify(err error) error {
	var known *headgate.StoreError
	if err == nil || errors.As(err, &known) || errors.Is(err, headgate.ErrClosed) {
		return err
	}
	text := strings.TrimPrefix(err.Error(), "ERR ")
	for _, a := range errorReplies {
		if strings.HasPrefix(text, a.prefix) && strings.Contains(text, a.contains) {
			return newStoreError(a.reason, a.advice, firstLine(err))
		}
	}
	if isServerReply(err) {
		return newStoreError(headgate.ReasonRefused, "", firstLine(err))
	}
	return connectionError(err)
}

// isServerReply reports whether err is an error reply of the server. rueidis uses an
// error type for such errors, go-redis a method.
func isServerReply(err error) bool {
	var reply interface{ RedisError() }
	_, ok := rueidis.IsRedisErr(err)
	return ok || errors.As(err, &reply)
}

// connectionError converts an error that is not a reply of the server to a store error.
// It is certain that nothing was spent only if no connection was established, or if the
// server had closed the connection before the call was sent.
func connectionError(err error) error {
	var op *net.OpError
	var invalid respcheck.Error
	switch {
	case errors.Is(err, respcheck.ErrNotRedis):
		return newStoreError(headgate.ReasonRefused, "the server does not use the Redis protocol; check the address", err)
	case errors.As(err, &invalid):
		return errInvalidReply(err)
	case errors.Is(err, errClosedWhileIdle), errors.As(err, &op) && op.Op == "dial":
		return errUnreachable(err, "check that the server is running and that the address is correct")
	}
	return errTimedOut(err)
}

// errUnreachable returns the error for a connection that could not be established.
func errUnreachable(err error, advice string) error {
	var certificate *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	var slow *handshakeError
	switch {
	case errors.As(err, &certificate):
		advice = "the server's certificate is not trusted; set ca to the CA file, or server_name to the name in the certificate"
	case errors.As(err, &noTLS):
		advice = "the server does not use TLS on this port; use redis:// in place of rediss://, or the TLS port"
	case errors.As(err, &slow):
		advice = "the server accepted the connection but did not answer the TLS handshake; use redis:// in place of rediss://, or the TLS port"
	case strings.Contains(err.Error(), "remote error: tls: "):
		advice = "the server refused the TLS handshake; check whether it requires a client certificate (cert, key)"
	}
	return newStoreError(headgate.ReasonUnreachable, advice, err)
}

// errWrongMode returns the error for a server whose mode does not match the URL's
// scheme.
func errWrongMode(advice string) error { return newStoreError(headgate.ReasonRefused, advice, nil) }

// firstLine returns an error whose text is the first line of err's text, truncated to
// 160 bytes. The remaining text may contain a key.
func firstLine(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if len(text) > 160 {
		text = text[:160] + "…"
	}
	return errors.New(text)
}

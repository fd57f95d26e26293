package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

const storeName = "redis"

func trouble(what headgate.StoreErrorReason, advice string, err error) *headgate.StoreError {
	return &headgate.StoreError{Store: storeName, Reason: what, Advice: advice, Err: err}
}

func errOverloaded() error {
	return trouble(headgate.ReasonOverloaded, "more callers wait than Redis answers in time; ask less, or give it more (MaxWaiting, Timeout)", nil)
}

// errNotSent is for a caller who left before his operation was sent. That is his own context's doing, so it is his own error.
func errNotSent(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("redisstore: not sent, nothing was spent: %w", ctx.Err())
	}
	return trouble(headgate.ReasonOverloaded, "it waited for others until its time was over; nothing was spent", ctx.Err())
}

func errTimedOut(err error) error {
	return trouble(headgate.ReasonTimedOut, "whether it was spent is unknown", err)
}

func errForeign() error {
	return trouble(headgate.ReasonWrongType, "what lies under this key was not written by this version; use a namespace of your own, or remove it", nil)
}

func errReply(bytes int) error {
	return trouble(headgate.ReasonRefused, "is this Redis or Valkey, 6.2 or later?", fmt.Errorf("a reply of %d bytes that is none of this script's", bytes))
}

func errVerb() error { return errUnsupported("apply", "there are take, peek, refund and reset") }

func errUnsupported(what, why string) error {
	return fmt.Errorf("redisstore: %s: %w: %s", what, headgate.ErrUnsupported, why)
}

// reason is why a server did not run a call.
type reason uint8

const (
	ran      reason = iota // it did, or nobody knows, or it never will
	noScript               // it has forgotten the script
	tryAgain               // the keys are being moved
	notSent                // it never had the call
)

func notRun(err error) reason {
	if err == nil {
		return ran
	}
	if errors.Is(err, errHungUp) {
		return notSent
	}
	switch text := err.Error(); {
	case strings.HasPrefix(text, "NOSCRIPT"):
		return noScript
	case strings.HasPrefix(text, "TRYAGAIN"):
		return tryAgain
	}
	return ran
}

// Advice that stands with several answers.
const (
	adviceForeign = "the key holds something that is not a limit's state; use a namespace of your own, or remove it"
	adviceReplica = "this is a read-only replica; give the address of the primary, or use redis+sentinel://"
	adviceMemory  = "it is out of memory: raise maxmemory, or lower what else lies there"
	adviceACL     = "the user's ACL lacks a rule; docs/operations.md has the least that is needed"
)

// answers are what a server says when it refuses, by how that begins (without ERR) and what stands in it, and what to do about it.
var answers = []struct {
	begins, holds string
	what          headgate.StoreErrorReason
	advice        string
}{
	{"", "WRONGTYPE", headgate.ReasonWrongType, adviceForeign},
	{"", "HEADGATE_FOREIGN", headgate.ReasonWrongType, adviceForeign},
	{"LOADING", "", headgate.ReasonRefused, "it reads its data from disk; wait until it has"},
	{"", "READONLY", headgate.ReasonRefused, adviceReplica},
	{"", "read only replica", headgate.ReasonRefused, adviceReplica},
	{"OOM", "", headgate.ReasonRefused, adviceMemory},
	{"", "OOM command not allowed", headgate.ReasonRefused, adviceMemory},
	{"NOAUTH", "", headgate.ReasonRefused, "it asks for a password: redis://:password@host or redis://user:password@host"},
	{"WRONGPASS", "", headgate.ReasonRefused, "user or password is wrong"},
	{"AUTH", "", headgate.ReasonRefused, "it has no password set; leave it out of the URL"},
	{"", "NOPERM", headgate.ReasonRefused, adviceACL},
	{"", "The user executing the script can't", headgate.ReasonRefused, adviceACL},
	{"", "ACL failure in script", headgate.ReasonRefused, adviceACL},
	{"MASTERDOWN", "", headgate.ReasonRefused, "this is a replica whose primary is away"},
	{"NOREPLICAS", "", headgate.ReasonRefused, "it has fewer replicas than min-replicas-to-write asks for"},
	{"CLUSTERDOWN", "", headgate.ReasonRefused, "the cluster does not serve this slot; see CLUSTER INFO"},
	{"MOVED", "", headgate.ReasonRefused, "this is a node of a cluster: use redis+cluster://"},
	{"CROSSSLOT", "", headgate.ReasonRefused, "this is a cluster: use redis+cluster://"},
	{"MISCONF", "", headgate.ReasonRefused, "it cannot save to disk and stopped writing; see its log"},
	{"BUSY", "", headgate.ReasonRefused, "another script keeps it busy"},
	{"TRYAGAIN", "", headgate.ReasonRefused, "the cluster is moving these keys; try again"},
	{"DB index", "", headgate.ReasonRefused, "it has fewer databases; see databases in its configuration"},
	{"This instance has cluster support disabled", "", headgate.ReasonRefused, "this is no cluster: use redis://"},
	{"No such master", "", headgate.ReasonRefused, "the sentinels know no primary of this name; see SENTINEL MASTERS"},
	{"unknown command", "SENTINEL", headgate.ReasonRefused, "is it a sentinel? A server by itself is redis://"},
	{"unknown command", "", headgate.ReasonRefused, "is this Redis or Valkey, 6.2 or later?"},
}

// storeError sorts a client's error. One that is sorted already stays.
func storeError(err error) error {
	var known *headgate.StoreError
	if err == nil || errors.As(err, &known) || errors.Is(err, headgate.ErrClosed) {
		return err
	}
	text := strings.TrimPrefix(err.Error(), "ERR ")
	for _, a := range answers {
		if strings.HasPrefix(text, a.begins) && strings.Contains(text, a.holds) {
			return trouble(a.what, a.advice, shortened(err))
		}
	}
	if answered(err) {
		return trouble(headgate.ReasonRefused, "", shortened(err))
	}
	return connectionError(err)
}

// answered reports whether it was the server that said this: by the error's type in rueidis, or by its method in go-redis.
func answered(err error) bool {
	var said interface{ RedisError() }
	_, ok := rueidis.IsRedisErr(err)
	return ok || errors.As(err, &said)
}

// connectionError sorts what is not an answer of the server's. Only where no connection came about is it certain that nothing was
// spent.
func connectionError(err error) error {
	var op *net.OpError
	switch {
	case strings.Contains(err.Error(), "unknown message type"):
		return trouble(headgate.ReasonRefused, "what answers there does not speak Redis' protocol; is the address right?", err)
	case errors.Is(err, errHungUp), errors.As(err, &op) && op.Op == "dial":
		return errUnreachable(err, "is it running, and is the address right?")
	}
	return errTimedOut(err)
}

// errUnreachable is for a connection that did not come about.
func errUnreachable(err error, advice string) error {
	var certificate *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	var slow *handshakeError
	switch {
	case errors.As(err, &certificate):
		advice = "its certificate is not trusted: ca names the authority's file, server_name what the certificate must name"
	case errors.As(err, &noTLS):
		advice = "what answers there does not speak TLS; write redis:// instead of rediss://, or give the port that does"
	case errors.As(err, &slow):
		advice = "it takes connections and no TLS; write redis:// instead of rediss://, or give the port that does"
	case strings.Contains(err.Error(), "remote error: tls: "):
		advice = "it refuses this client's TLS; does it ask for a certificate (cert, key)?"
	}
	return trouble(headgate.ReasonUnreachable, advice, err)
}

// errOtherKind is for a server that the URL's scheme does not fit.
func errOtherKind(advice string) error { return trouble(headgate.ReasonRefused, advice, nil) }

// shortened keeps a server's answer from showing more of itself than its first line: what follows can hold a key.
func shortened(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if len(text) > 160 {
		text = text[:160] + "…"
	}
	return errors.New(text)
}

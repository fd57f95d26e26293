package memcachedstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

const storeName = "memcached"

func newStoreError(reason headgate.StoreErrorReason, err error, advice string) error {
	return &headgate.StoreError{Store: storeName, Reason: reason, Advice: advice, Err: err}
}

// classify converts an error of the memcached client to a store error. writing is
// whether the operation is a cas, an add or a delete: it may have been executed
// although its reply was lost.
func classify(err error, writing bool) error {
	var dialed *net.OpError
	var slowDial *memcache.ConnectTimeoutError
	var slow net.Error
	switch {
	case errors.As(err, &slowDial), errors.As(err, &dialed) && dialed.Op == "dial":
		return newStoreError(headgate.ReasonUnreachable, err, "check that the server is running and that the address is correct")
	case errors.Is(err, memcache.ErrNoServers):
		return newStoreError(headgate.ReasonUnreachable, err, "")
	case errors.As(err, &slow) && slow.Timeout() && writing:
		return errTimedOut(err)
	case errors.As(err, &slow) && slow.Timeout():
		return newStoreError(headgate.ReasonUnreachable, err, "the server did not answer in time; nothing was spent")
	case strings.HasPrefix(err.Error(), "memcache: "), errors.Is(err, bufio.ErrBufferFull):
		return replyError(err)
	case writing && !(errors.As(err, &dialed) && dialed.Op == "write"):
		return newStoreError(headgate.ReasonTimedOut, err, "the connection broke before the reply arrived; whether the cost was spent is unknown")
	default:
		return newStoreError(headgate.ReasonUnreachable, err, "")
	}
}

// replyError returns the store error for an unexpected reply of the server.
func replyError(err error) error {
	text, advice := err.Error(), "check that the server at this address is memcached"
	switch {
	case strings.Contains(text, "out of memory"):
		advice = "the server is out of memory and may not evict; raise its option -m, or start it without -M"
	case strings.Contains(text, "too large"):
		advice = "the server refuses items of this size; raise its option -I to 1m or more"
	case strings.Contains(text, "Too many open connections"):
		advice = "raise the server's option -c, or lower MaxConns"
	case strings.Contains(text, "unauthenticated"):
		advice = "the server requires a password, which this store does not support; start it without -Y on a private network"
	}
	return newStoreError(headgate.ReasonRefused, err, advice)
}

// isBroken reports whether err is the error of a connection that was closed, such as an
// idle connection after a restart of the server.
func isBroken(err error) bool {
	closed := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed}
	return slices.ContainsFunc(closed, func(target error) bool { return errors.Is(err, target) })
}

func errForeignValue() error {
	return newStoreError(headgate.ReasonWrongType, errForeign,
		"another program or an incompatible version writes keys that start with hg:; use a separate Namespace")
}

func errWithoutCAS() error {
	return newStoreError(headgate.ReasonRefused, errors.New("the server does not return CAS values"), "start memcached without the option -C")
}

func errContended(tries int) error {
	return newStoreError(headgate.ReasonOverloaded, fmt.Errorf("other processes changed the key during %d attempts", tries), "nothing was spent")
}

func errTooManyWaiting(waiting int) error {
	return newStoreError(headgate.ReasonOverloaded, fmt.Errorf("%d calls are waiting already", waiting), "reduce the load, or raise MaxWaiting if memory allows; nothing was spent")
}

func errTimedOut(cause error) error {
	return newStoreError(headgate.ReasonTimedOut, cause, "whether the cost was spent is unknown")
}

// errPartlyWritten returns the error for a request on several keys that failed after
// its first write. Returning err itself could be wrong, because its advice may be that
// nothing was spent.
func errPartlyWritten(err error) error {
	var known *headgate.StoreError
	if !errors.As(err, &known) {
		return err
	}
	return newStoreError(headgate.ReasonTimedOut, known.Err, "the cost on other keys of the request may stay spent")
}

// errNotSent returns the error for a caller that stopped waiting before anything was
// written for its request. If the caller canceled its own context, the error is not a
// store error.
func errNotSent(cause error) error {
	if errors.Is(cause, context.Canceled) {
		return fmt.Errorf("memcachedstore: %w; nothing was spent", cause)
	}
	return newStoreError(headgate.ReasonOverloaded, cause, "the deadline passed while the call waited for the server or for other calls; nothing was spent")
}

func errVerb(v headgate.Verb) error {
	return fmt.Errorf("memcachedstore: apply: %w: verb is %d; must be take, peek, refund or reset", headgate.ErrUnsupported, v)
}

// errHoldRequired is the error of a verb that would take units that only holds take.
func errHoldRequired(verb string) error {
	return fmt.Errorf("memcachedstore: %s: %w; use ApplyHolds", verb, headgate.ErrHoldRequired)
}

func errCannotReserve(verb string) error {
	return fmt.Errorf("memcachedstore: %s: %w: reservations require %s",
		verb, headgate.ErrUnsupported, algo.NamesWhere(headgate.Algorithm.CanReserve))
}

func errCannotHold() error {
	return fmt.Errorf("memcachedstore: hold: %w: holds require %s", headgate.ErrUnsupported, algo.NamesWhere(headgate.Algorithm.CanHold))
}

func errCannotLease() error {
	return fmt.Errorf("memcachedstore: lease: %w: leases require %s", headgate.ErrUnsupported, algo.NamesWhere(headgate.Algorithm.CanLease))
}

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

func trouble(t headgate.StoreErrorReason, err error, advice string) error {
	return &headgate.StoreError{Store: storeName, Reason: t, Advice: advice, Err: err}
}

// failure tells what an error of the client means. writing says that it came from a cas, an add or a delete: a request that may
// have been executed although its reply was lost.
func failure(err error, writing bool) error {
	var dialed *net.OpError
	var slowDial *memcache.ConnectTimeoutError
	var slow net.Error
	switch {
	case errors.As(err, &slowDial), errors.As(err, &dialed) && dialed.Op == "dial":
		return trouble(headgate.ReasonUnreachable, err, "check that the server runs and that this address is its own")
	case errors.Is(err, memcache.ErrNoServers):
		return trouble(headgate.ReasonUnreachable, err, "")
	case errors.As(err, &slow) && slow.Timeout() && writing:
		return errLate(err)
	case errors.As(err, &slow) && slow.Timeout():
		return trouble(headgate.ReasonUnreachable, err, "the server did not answer what it was asked; nothing was spent")
	case strings.HasPrefix(err.Error(), "memcache: "), errors.Is(err, bufio.ErrBufferFull):
		return refusal(err)
	case writing && !(errors.As(err, &dialed) && dialed.Op == "write"):
		return trouble(headgate.ReasonTimedOut, err, "the connection broke before the reply came, so whether it was spent is unknown")
	default:
		return trouble(headgate.ReasonUnreachable, err, "")
	}
}

// refusal is a reply that is none of the expected.
func refusal(err error) error {
	text, advice := err.Error(), "is it memcached that listens at this address?"
	switch {
	case strings.Contains(text, "out of memory"):
		advice = "the server has no memory left and may not evict: raise its -m, or run it without -M"
	case strings.Contains(text, "too large"):
		advice = "the server takes no item of this size: raise its -I to 1m or more"
	case strings.Contains(text, "Too many open connections"):
		advice = "raise the server's -c, or lower MaxConns"
	case strings.Contains(text, "unauthenticated"):
		advice = "the server wants a password, which this store cannot give it: run it without -Y on a network of its own"
	}
	return trouble(headgate.ReasonRefused, err, advice)
}

// broken reports an error of a connection that ended, as one that was idle does when the server was started anew.
func broken(err error) bool {
	ends := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
}

func errForeignValue() error {
	return trouble(headgate.ReasonWrongType, errForeign,
		"something else writes keys that begin with hg:, or an incompatible version does; give this store a Namespace of its own")
}

func errWithoutCAS() error {
	return trouble(headgate.ReasonRefused, errors.New("the server gives its items no cas number"), "run it without -C")
}

func errContended(tries int) error {
	return trouble(headgate.ReasonOverloaded, fmt.Errorf("other processes changed the key between %d tries", tries), "nothing was spent")
}

func errCrowded(most int) error {
	return trouble(headgate.ReasonOverloaded, fmt.Errorf("%d callers wait already", most), "raise MaxWaiting if memory allows; nothing was spent")
}

func errLate(cause error) error {
	return trouble(headgate.ReasonTimedOut, cause, "whether it was spent is unknown")
}

// errKept is for a request on several keys that failed after it had begun to write: what it failed of would say that nothing was
// spent.
func errKept(err error) error {
	var known *headgate.StoreError
	if !errors.As(err, &known) {
		return err
	}
	return trouble(headgate.ReasonTimedOut, known.Err, "what was written for the other keys of the request may stay spent")
}

// errLateUnspent is for a caller who left before anything was written for him. It is no trouble of the store when he himself did
// not want to wait.
func errLateUnspent(cause error) error {
	if errors.Is(cause, context.Canceled) {
		return fmt.Errorf("memcachedstore: %w; nothing was spent", cause)
	}
	return trouble(headgate.ReasonOverloaded, cause, "it waited for the server, or for others, until its time was over; nothing was spent")
}

func errVerb(v headgate.Verb) error {
	return fmt.Errorf("memcachedstore: apply: %w: verb %d; there are take, peek, refund and reset", headgate.ErrUnsupported, v)
}

func errNoBooking(verb string) error {
	return fmt.Errorf("memcachedstore: %s: %w: reservations require %s",
		verb, headgate.ErrUnsupported, algo.NamesWhere(headgate.Algorithm.CanReserve))
}

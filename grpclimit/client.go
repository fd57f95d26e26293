package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/turn"
)

// DefaultMaxRetryDelay is the default of [ClientOptions].MaxRetryDelay.
const DefaultMaxRetryDelay = time.Minute

// ClientOptions are the settings of a [Client]. A field that is zero has its default;
// nil options mean all defaults. The functions may be called concurrently.
type ClientOptions struct {
	// Skip reports whether a call is exempt from limiting. An exempt call is sent
	// without waiting. nil exempts no call.
	Skip func(context.Context, Call) bool
	// ErrorHandler returns the error for a call that the store could not decide. If it
	// returns nil, the call is sent. A nil ErrorHandler means an error with the code
	// UNAVAILABLE that wraps the cause.
	ErrorHandler func(context.Context, Call, error) error
	// Retries is the maximum number of retries of a unary call that the server denies
	// with RESOURCE_EXHAUSTED or UNAVAILABLE and a RetryInfo. Before each retry, the
	// call waits for the delay of the RetryInfo and is then charged again, for which it
	// may have to wait. 0 means no retries. Do not combine Retries with a retryPolicy
	// for the same codes.
	Retries int
	// MaxRetryDelay is the longest delay of a RetryInfo after which a call is retried.
	// 0 means [DefaultMaxRetryDelay]. If the delay is longer, or ends after the call's
	// deadline, the call fails immediately with the server's error.
	MaxRetryDelay time.Duration
	// Observer receives an event for every charge of a call, after its wait. nil means
	// no observer.
	Observer headgate.Observer
}

// Client has the interceptors for a gRPC client. They delay each call until every
// charge that applies to it allows it. Calls do not wait for slots. In this process,
// calls with the same key wait in first-in, first-out order. Create a Client with
// [NewClient]. It may be used concurrently and for several connections.
type Client struct {
	opts    ClientOptions
	charges []clientCharge
	alive   *headgate.KeepAlive // extends the holds of calls
}

// clientCharge is a charge with the limiter for its policy.
type clientCharge struct {
	Charge
	limiter *headgate.Limiter
	canHold bool // whether a hold can take the units
}

// NewClient returns interceptors that charge each call, before it is sent, with every
// charge that applies. If the units of all of them are available and no other call waits
// for them, one store operation makes all charges. Otherwise they are made one after
// another; each may have to wait. NewClient
// returns the errors of headgate.New, and an error that matches [ErrInvalidOptions] for
// invalid options and keys. It does no I/O. It does not take ownership of the store:
// the caller must close the store. opts may be nil.
func NewClient(store headgate.Store, opts *ClientOptions, charges ...Charge) (*Client, error) {
	c := &Client{}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Retries < 0 || c.opts.MaxRetryDelay < 0 {
		return nil, fmt.Errorf("%w: Retries is %d and MaxRetryDelay %v; both must be 0 or more",
			ErrInvalidOptions, c.opts.Retries, c.opts.MaxRetryDelay)
	}
	if c.opts.MaxRetryDelay == 0 {
		c.opts.MaxRetryDelay = DefaultMaxRetryDelay
	}
	charges, all, err := compileKeys(store, charges, true)
	if err != nil {
		return nil, err
	}
	if c.alive, err = headgate.NewKeepAlive(nil); err != nil {
		return nil, err
	}
	for i, charge := range charges {
		limiter, err := headgate.New(store, charge.Policy, &headgate.Options{Observer: c.opts.Observer})
		if err != nil {
			return nil, err
		}
		_, holds := store.(headgate.HoldStore)
		queues := charge.Policy.Algorithm.Queues()
		if err := charge.checkMessage(i, limiter.OnlyHolds()); err != nil {
			return nil, err
		}
		if charge.AdjustCost != nil {
			one := []admission.Charge{{Queues: queues}}
			if err := admission.CheckHolds(store, one, "AdjustCost", ErrInvalidOptions); err != nil {
				return nil, fmt.Errorf("charge %d: %w", i+1, err)
			}
		}
		if charge.Limits != nil && charge.Policy.Name == "" {
			return nil, fmt.Errorf("%w: a charge with Limits has a policy without a name, so the limits would not share state; "+
				"name it with headgate.MustNamedPolicy", ErrInvalidOptions)
		}
		c.charges = append(c.charges, clientCharge{charge, limiter, holds && !queues})
	}
	if err := admission.Check(all, false, ErrInvalidOptions); err != nil {
		return nil, err
	}
	if err := admission.ClaimFunctions(store, all, false, ErrInvalidOptions); err != nil {
		return nil, err
	}
	return c, nil
}

// Unary is a [grpc.UnaryClientInterceptor] for grpc.WithUnaryInterceptor or
// grpc.WithChainUnaryInterceptor. A call is not sent in these cases:
//
//   - its turn is after its deadline: it fails immediately with RESOURCE_EXHAUSTED and
//     spends nothing, and the error matches [headgate.ErrWouldExceedDeadline];
//   - its cost is above the limit: it fails immediately with RESOURCE_EXHAUSTED, and
//     the error matches [headgate.ErrNeverAllowed];
//   - no slot of a limit such as “16 concurrent” is available: it fails immediately with
//     RESOURCE_EXHAUSTED, and the error matches [ErrNoSlot];
//   - its context ends while it waits: it fails with the status of the context.
func (c *Client) Unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	call := Call{Method: method, Target: targetOf(cc), Message: req}
	if c.skips(ctx, call) {
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	for sent := 0; ; sent++ {
		held, err := c.wait(ctx, call, wholeCall)
		if err != nil {
			return err
		}
		err = held.during(ctx, call, reply, func() error { return invoker(ctx, method, req, reply, cc, opts...) })
		if sent >= c.opts.Retries || !c.awaitRetry(ctx, err) {
			return err
		}
	}
}

// Stream is a [grpc.StreamClientInterceptor] for grpc.WithStreamInterceptor or
// grpc.WithChainStreamInterceptor. Before the stream is opened, it waits like a call in
// [Client.Unary]. If a charge has PerMessage set, each SendMsg waits until that charge
// allows the message. If SendMsg returns an error of this wait, the stream stays open:
// the caller must cancel the context of the stream.
func (c *Client) Stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	call := Call{Method: method, Target: targetOf(cc), Stream: true}
	if c.skips(ctx, call) {
		return streamer(ctx, desc, cc, method, opts...)
	}
	held, err := c.wait(ctx, call, streamOpen)
	if err != nil {
		return nil, err
	}
	stream, err := openStream(ctx, call, held, desc, opts, func(opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(ctx, desc, cc, method, opts...)
	})
	if err == nil && c.chargesMessages() {
		stream = &clientStream{ClientStream: stream, ctx: ctx, client: c, call: call}
	}
	return stream, err
}

// openStream opens a stream with open. The holds of the call, which may be nil, end with
// the stream, or immediately if it cannot be opened.
func openStream(
	ctx context.Context, call Call, held *clientHolds, desc *grpc.StreamDesc, opts []grpc.CallOption,
	open func(opts ...grpc.CallOption) (grpc.ClientStream, error),
) (stream grpc.ClientStream, err error) {
	if held == nil {
		return open(opts...)
	}
	s, opened := newHeldStream(ctx, call, held, desc), false
	defer func() {
		if !opened { // also if open panics
			s.abandon(err)
		}
	}()
	// a stream can also end without RecvMsg, for example if the connection is closed
	opts = append(opts[:len(opts):len(opts)], grpc.OnFinish(s.finished))
	if stream, err = open(opts...); err != nil {
		return stream, err
	}
	opened = true
	s.opened(stream)
	return s, nil
}

// clientStream is a stream on which SendMsg waits before it sends a message.
type clientStream struct {
	grpc.ClientStream
	ctx       context.Context // the context with which the stream was opened
	client    *Client
	call      Call
	responded atomic.Bool
}

// Header blocks until the server has sent the header.
func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	s.responded.Store(true)
	return md, err
}

// RecvMsg blocks until a message has arrived or the stream has ended.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.responded.Store(true)
	return err
}

// waitContext returns the context for the wait before a message is sent. After the
// server has responded, it is the context of the stream, which ends with the stream.
// Until then it is the context with which the stream was opened, because calling
// ClientStream.Context disables gRPC's retries.
func (s *clientStream) waitContext() context.Context {
	if s.responded.Load() {
		return s.Context()
	}
	return s.ctx
}

// SendMsg waits until the charges for messages allow m, then sends m.
func (s *clientStream) SendMsg(m any) error {
	call := s.call
	call.Message = m
	if _, err := s.client.wait(s.waitContext(), call, streamMessage); err != nil { // no hold: see checkMessage
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// phase selects the charges that are made at one point of a call.
type phase uint8

const (
	wholeCall     phase = iota // all charges of a unary call
	streamOpen                 // charges for opening a stream
	streamMessage              // charges for one message
)

func (p phase) includes(c *Charge) bool {
	return p == wholeCall || c.PerMessage == (p == streamMessage)
}

func targetOf(cc *grpc.ClientConn) string {
	if cc == nil {
		return ""
	}
	return cc.CanonicalTarget()
}

func (c *Client) skips(ctx context.Context, call Call) bool {
	return c.opts.Skip != nil && c.opts.Skip(ctx, call)
}

func (c *Client) chargesMessages() bool {
	for i := range c.charges {
		if c.charges[i].PerMessage {
			return true
		}
	}
	return false
}

// wait blocks until all charges of call for the phase p are made. If one charge fails,
// wait cancels the charges that were made before it and returns an error. It returns the
// holds that end with the call, or nil.
func (c *Client) wait(ctx context.Context, call Call, p phase) (*clientHolds, error) {
	var room [4]clientPart
	parts := c.parts(ctx, room[:0], call, p)
	if c.takeNow(ctx, parts) {
		return nil, nil
	}
	held := &clientHolds{alive: c.alive}
	for i := range parts {
		part := &parts[i]
		err := held.make(ctx, part, i == len(parts)-1)
		if err != nil {
			err = c.waitError(ctx, call, part.charge.Policy.Name, err)
		}
		if err != nil {
			held.undo(ctx)
			return nil, err
		}
	}
	return held.sent(ctx), nil
}

// limiterFor returns the limiter with the limits of a call.
func (c *clientCharge) limiterFor(ctx context.Context, call Call) (*headgate.Limiter, error) {
	if c.Limits == nil {
		return c.limiter, nil
	}
	limits := c.Limits(ctx, call)
	if len(limits) == 0 {
		return c.limiter, nil
	}
	return c.limiter.WithLimits(limits...)
}

// waitError returns the error with which a call fails after its wait returned err. It
// returns nil if ErrorHandler decides that the call is sent nevertheless.
func (c *Client) waitError(ctx context.Context, call Call, policy string, err error) error {
	e := &notSentError{policy: policy, err: err}
	switch {
	case errors.Is(err, headgate.ErrWouldExceedDeadline), errors.Is(err, headgate.ErrNeverAllowed), errors.Is(err, ErrNoSlot):
		e.code = codes.ResourceExhausted
	case ctx.Err() != nil:
		e.code = status.FromContextError(ctx.Err()).Code()
	case errors.Is(err, headgate.ErrInvalidCost):
		e.code = codes.Internal
	case c.opts.ErrorHandler != nil:
		return c.opts.ErrorHandler(ctx, call, err)
	default:
		e.code = codes.Unavailable
	}
	return e
}

// notSentError is the error of a call that was not sent, because a charge did not allow
// it or its wait was interrupted.
type notSentError struct {
	policy string
	code   codes.Code
	err    error
}

// Error returns a text with the policy and the cause.
func (e *notSentError) Error() string {
	return fmt.Sprintf("grpclimit: call not sent: policy %q: %v", e.policy, e.err)
}

// Unwrap returns the cause of the error.
func (e *notSentError) Unwrap() error { return e.err }

// GRPCStatus returns the error as a gRPC status.
func (e *notSentError) GRPCStatus() *status.Status { return status.New(e.code, e.Error()) }

// awaitRetry waits for the retry delay in err, the error of a call, and reports whether
// the call should be retried. It returns false immediately if err has no retry delay,
// or if the delay is longer than MaxRetryDelay or ends after the deadline of ctx. It
// also returns false if ctx ends during the delay.
func (c *Client) awaitRetry(ctx context.Context, err error) bool {
	delay, found := retryDelay(err)
	if !found || delay > c.opts.MaxRetryDelay {
		return false
	}
	return turn.Await(ctx, time.Now().Add(delay)) == nil
}

// retryDelay returns the delay of the RetryInfo in a server's error. It returns false
// if the error has no valid delay, or a code other than RESOURCE_EXHAUSTED and
// UNAVAILABLE.
func retryDelay(err error) (time.Duration, bool) {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return 0, false
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			delay := info.GetRetryDelay()
			return delay.AsDuration(), delay.CheckValid() == nil && delay.AsDuration() >= 0
		}
	}
	return 0, false
}

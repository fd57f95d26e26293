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

// ClientOptions are a [Client]'s settings. A field that is zero has its default;
// nil options mean all defaults. Functions may be called concurrently.
type ClientOptions struct {
	// Skip reports whether a call is exempt from limiting and is sent without waiting.
	// nil exempts no call.
	Skip func(context.Context, Call) bool
	// ErrorHandler returns the error of a call that the store could not decide. If it
	// returns nil the call is sent. nil means UNAVAILABLE, an error that wraps the
	// cause.
	ErrorHandler func(context.Context, Call, error) error
	// Retries is how many times a unary call is retried if the server denies it with
	// RESOURCE_EXHAUSTED or UNAVAILABLE and a RetryInfo. Each retry waits for the delay
	// of the RetryInfo, then for its turn. 0 means never. Do not combine Retries with a
	// retryPolicy for the same codes.
	Retries int
	// MaxRetryDelay is the longest delay of a RetryInfo that a retry waits for. 0 means
	// [DefaultMaxRetryDelay]. If the delay is longer, or ends after the call's
	// deadline, the call fails immediately with the server's error.
	MaxRetryDelay time.Duration
	// Observer receives an event for every wait for a turn. nil means no observer.
	Observer headgate.Observer
}

// Client provides the interceptors of a client. Each call waits until its charges allow
// it. The calls of one key in this process wait in the order in which they arrive.
// Create a Client with [NewClient]. It may be used concurrently and by several
// connections.
type Client struct {
	opts    ClientOptions
	charges []clientCharge
}

// clientCharge is a charge and its limiter.
type clientCharge struct {
	Charge
	limiter *headgate.Limiter
}

// NewClient returns interceptors whose calls wait until every charge that applies is
// made, one after another. NewClient returns an error for everything that headgate.New
// rejects, and for invalid keys. It does no I/O. The caller must close the store. opts
// may be nil.
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
	for _, charge := range charges {
		limiter, err := headgate.New(store, charge.Policy, &headgate.Options{Observer: c.opts.Observer})
		if err != nil {
			return nil, err
		}
		c.charges = append(c.charges, clientCharge{charge, limiter})
	}
	if err := admission.Check(all, false, ErrInvalidOptions); err != nil {
		return nil, err
	}
	return c, nil
}

// Unary is a [grpc.UnaryClientInterceptor] for grpc.WithUnaryInterceptor or
// grpc.WithChainUnaryInterceptor. A call is not sent if:
//
//   - its turn is after its deadline: it fails immediately with RESOURCE_EXHAUSTED and
//     spends nothing, and the error matches [headgate.ErrWouldExceedDeadline];
//   - its cost is above the limit: it fails immediately with RESOURCE_EXHAUSTED, and
//     the error matches [headgate.ErrNeverAllowed];
//   - its context ends while it waits: it fails with the status of the context.
func (c *Client) Unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	call := Call{Method: method, Target: targetOf(cc), Message: req}
	if c.skips(ctx, call) {
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	for sent := 0; ; sent++ {
		if err := c.wait(ctx, call, wholeCall); err != nil {
			return err
		}
		err := invoker(ctx, method, req, reply, cc, opts...)
		if sent >= c.opts.Retries || !c.awaitRetry(ctx, err) {
			return err
		}
	}
}

// Stream is a [grpc.StreamClientInterceptor] for grpc.WithStreamInterceptor or
// grpc.WithChainStreamInterceptor. The stream opens when its turn has come, as in
// [Client.Unary]. If there is a charge for messages, each SendMsg waits for its turn.
// If SendMsg fails because the message cannot have its turn, the stream stays open: the
// caller must cancel its context.
func (c *Client) Stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	call := Call{Method: method, Target: targetOf(cc), Stream: true}
	if c.skips(ctx, call) {
		return streamer(ctx, desc, cc, method, opts...)
	}
	if err := c.wait(ctx, call, streamOpen); err != nil {
		return nil, err
	}
	stream, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil || !c.chargesMessages() {
		return stream, err
	}
	return &clientStream{ClientStream: stream, ctx: ctx, client: c, call: call}, nil
}

// clientStream waits before each message.
type clientStream struct {
	grpc.ClientStream
	ctx       context.Context // the context with which the stream was opened
	client    *Client
	call      Call
	responded atomic.Bool
}

// Header blocks until the server sends the header.
func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	s.responded.Store(true)
	return md, err
}

// RecvMsg blocks until a message arrives.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.responded.Store(true)
	return err
}

// waitContext returns the context in which messages wait. After the server has
// responded it is the context of the stream, which ends with the stream. Before, it is
// the context with which the stream was opened, because a call to
// ClientStream.Context disables gRPC's retries.
func (s *clientStream) waitContext() context.Context {
	if s.responded.Load() {
		return s.Context()
	}
	return s.ctx
}

// SendMsg waits for the message's turn, then sends it.
func (s *clientStream) SendMsg(m any) error {
	call := s.call
	call.Message = m
	if err := s.client.wait(s.waitContext(), call, streamMessage); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// phase selects which charges are made.
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

// wait blocks until the charges of call are made. If one fails, wait releases what the
// charges before it took.
func (c *Client) wait(ctx context.Context, call Call, p phase) error {
	var receipt *turn.Receipt // of the charges that are already made
	if len(c.charges) > 1 {
		ctx, receipt = turn.WithReceipt(ctx)
	}
	for i := range c.charges {
		charge := &c.charges[i]
		if !p.includes(&charge.Charge) || !charge.applies(ctx, call) {
			continue
		}
		key, cost := charge.Key.compiled.Text(keyRequest{ctx: ctx, call: call}), charge.cost(ctx, call)
		err := charge.limiter.WaitN(ctx, key, cost)
		if err != nil {
			err = c.waitError(ctx, call, charge.Policy.Name, err)
		}
		if err != nil {
			receipt.Undo(ctx)
			return err
		}
	}
	return nil
}

// waitError returns the error of a call that is not sent, or nil if it is sent despite
// err.
func (c *Client) waitError(ctx context.Context, call Call, policy string, err error) error {
	e := &notSentError{policy: policy, err: err}
	switch {
	case errors.Is(err, headgate.ErrWouldExceedDeadline), errors.Is(err, headgate.ErrNeverAllowed):
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

// notSentError is the error of a call that did not get its turn.
type notSentError struct {
	policy string
	code   codes.Code
	err    error
}

// Error returns a message with the policy and the cause.
func (e *notSentError) Error() string {
	return fmt.Sprintf("grpclimit: call not sent: policy %q: %v", e.policy, e.err)
}

// Unwrap returns the cause.
func (e *notSentError) Unwrap() error { return e.err }

// GRPCStatus returns the error as a gRPC status.
func (e *notSentError) GRPCStatus() *status.Status { return status.New(e.code, e.Error()) }

// awaitRetry blocks for the retry delay in the error of a call and returns true. It
// returns false immediately if the error has no delay, or if the delay is above
// MaxRetryDelay or ends after the deadline of ctx. It returns false if ctx ends during
// the delay.
func (c *Client) awaitRetry(ctx context.Context, err error) bool {
	delay, found := retryDelay(err)
	if !found || delay > c.opts.MaxRetryDelay {
		return false
	}
	return turn.Await(ctx, time.Now().Add(delay)) == nil
}

// retryDelay returns the delay of the RetryInfo in the error of a server.
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

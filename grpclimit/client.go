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

// DefaultMaxRetryDelay is the longest wait that a client makes at a server's request when nothing else is said.
const DefaultMaxRetryDelay = time.Minute

// ClientOptions are a [Client]'s settings. The zero value of each field is its default; nil means all defaults. Functions may be
// called concurrently.
type ClientOptions struct {
	// Skip lets calls pass without waiting; nil skips none.
	Skip func(context.Context, Call) bool
	// Undecided makes the error of a call for which the store could not decide. If it returns nil the call is sent. nil means
	// UNAVAILABLE, from which errors.Is and errors.As find the cause.
	ErrorHandler func(context.Context, Call, error) error
	// Retries is how often a unary call is sent again that a server has denied, with RESOURCE_EXHAUSTED or UNAVAILABLE and a
	// RetryInfo, after the wait that this asks for; 0 means never. Each time it waits for its turn again. Do not combine it with
	// a retryPolicy for the same codes.
	Retries int
	// MaxRetryDelay is the longest such wait; 0 means [DefaultMaxRetryDelay]. A call that is asked to wait longer, or past its
	// deadline, fails at once with what the server said.
	MaxRetryDelay time.Duration
	// Observer receives an event for every wait for a turn; nil means none.
	Observer headgate.Observer
}

// Client has the interceptors of a client. Its calls wait for their turn, those of one key in this process in the order they
// came. It is made with [NewClient] and may be used concurrently and by several connections.
type Client struct {
	opts    ClientOptions
	charges []clientCharge
}

// clientCharge is a charge and who decides on it.
type clientCharge struct {
	Charge
	limiter *headgate.Limiter
}

// NewClient makes interceptors whose calls wait until every charge that holds for them was made, one after another. It refuses
// what headgate.New refuses, and keys that cannot work, and does no I/O. It does not own the store. opts may be nil.
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
	charges, all, err := keyed(store, charges, true)
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

// Unary is a [grpc.UnaryClientInterceptor]: for grpc.WithUnaryInterceptor or grpc.WithChainUnaryInterceptor. A call that cannot
// have its turn before its deadline is not sent: it fails at once with RESOURCE_EXHAUSTED, an error that matches
// [headgate.ErrWouldExceedDeadline], and spends nothing. One whose cost is above the limit fails alike, with
// [headgate.ErrNeverAllowed], and one that ends while it waits with the status of its context.
func (c *Client) Unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	call := Call{Method: method, Target: targetOf(cc), Message: req}
	if c.skips(ctx, call) {
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	for sent := 0; ; sent++ {
		if err := c.wait(ctx, call, everything); err != nil {
			return err
		}
		err := invoker(ctx, method, req, reply, cc, opts...)
		if sent >= c.opts.Retries || !c.pause(ctx, err) {
			return err
		}
	}
}

// Stream is a [grpc.StreamClientInterceptor]: for grpc.WithStreamInterceptor or grpc.WithChainStreamInterceptor. The stream opens
// when its turn has come, as in [Client.Unary]; with a charge for messages each SendMsg waits for its own. A message that cannot
// have its turn leaves the stream open: the caller ends it, as always, by its context.
func (c *Client) Stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	call := Call{Method: method, Target: targetOf(cc), Stream: true}
	if c.skips(ctx, call) {
		return streamer(ctx, desc, cc, method, opts...)
	}
	if err := c.wait(ctx, call, opening); err != nil {
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
	ctx      context.Context // of whoever opened it
	client   *Client
	call     Call
	answered atomic.Bool
}

// Header waits for the server's answer.
func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	s.answered.Store(true)
	return md, err
}

// RecvMsg waits for a message.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.answered.Store(true)
	return err
}

// life is the context in which messages wait. That of the stream ends with it, but whoever asks for it before the server has
// answered tells gRPC never to retry the stream.
func (s *clientStream) life() context.Context {
	if s.answered.Load() {
		return s.Context()
	}
	return s.ctx
}

// SendMsg sends a message when its turn has come.
func (s *clientStream) SendMsg(m any) error {
	call := s.call
	call.Message = m
	if err := s.client.wait(s.life(), call, messages); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// moment is which charges are made.
type moment uint8

const (
	everything moment = iota // of a unary call
	opening                  // of a stream
	messages                 // of a stream
)

func (m moment) includes(c *Charge) bool { return m == everything || c.PerMessage == (m == messages) }

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

// wait blocks until call's charges were made. If one cannot be, what the charges before it took is released.
func (c *Client) wait(ctx context.Context, call Call, m moment) error {
	var receipt *turn.Receipt // of the charges before
	if len(c.charges) > 1 {
		ctx, receipt = turn.WithReceipt(ctx)
	}
	for i := range c.charges {
		charge := &c.charges[i]
		if !m.includes(&charge.Charge) || !charge.holds(ctx, call) {
			continue
		}
		key, cost := charge.Key.ready.Text(keyRequest{ctx: ctx, call: call}), charge.cost(ctx, call)
		err := charge.limiter.WaitN(ctx, key, cost)
		if err != nil {
			err = c.failure(ctx, call, charge.Policy.Name, err)
		}
		if err != nil {
			receipt.Undo(ctx)
			return err
		}
	}
	return nil
}

// failure is what a call is answered that was not sent; nil if it is to be sent all the same.
func (c *Client) failure(ctx context.Context, call Call, policy string, err error) error {
	e := &notSent{policy: policy, err: err}
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

// notSent is the error of a call that did not get its turn.
type notSent struct {
	policy string
	code   codes.Code
	err    error
}

// Error names the policy and the cause.
func (e *notSent) Error() string {
	return fmt.Sprintf("grpclimit: the call was not sent: policy %q: %v", e.policy, e.err)
}

// Unwrap is the cause.
func (e *notSent) Unwrap() error { return e.err }

// GRPCStatus makes it an error as gRPC has them.
func (e *notSent) GRPCStatus() *status.Status { return status.New(e.code, e.Error()) }

// pause waits as long as a server asked for in the error of a call. It reports false at once if it asked for nothing, or for more
// than there is time for.
func (c *Client) pause(ctx context.Context, err error) bool {
	delay, asked := retryDelay(err)
	if !asked || delay > c.opts.MaxRetryDelay {
		return false
	}
	return turn.Await(ctx, time.Now().Add(delay)) == nil
}

// retryDelay is the wait that a server asks for in its denial.
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

package grpclimit

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
)

// Server has the interceptors for a gRPC server. Create it with [NewServer]. It may be
// used concurrently and by several servers.
type Server struct {
	opts     Options
	unary    group // all charges; made for a unary call
	opening  group // the charges that are made when a stream opens
	messages group // the charges that are made for each message of a stream
	keeper   *admission.Keeper
}

// NewServer returns interceptors that allow a call if every charge that applies to it
// allows it. If one charge denies, no charge is spent. NewServer returns the errors of
// headgate.New, and an error that matches [ErrInvalidOptions] for invalid options and
// keys. It does no I/O. opts may be nil.
func NewServer(store headgate.Store, opts *Options, charges ...Charge) (*Server, error) {
	s := &Server{}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Pushback == 0 {
		s.opts.Pushback = DefaultPushback
	}
	if s.opts.DeniedHandler == nil {
		s.opts.DeniedHandler = func(_ context.Context, _ Call, d *Denial) error { return d.Status().Err() }
	}
	charges, all, err := compileKeys(store, charges, false)
	if err != nil {
		return nil, err
	}
	bound, err := admission.BindAll(store, all, ErrInvalidOptions)
	if err != nil {
		return nil, err
	}
	addrs, err := newAddresses(s.opts.Client)
	if err != nil {
		return nil, err
	}
	writer, err := httpfields.New(s.opts.Fields)
	if err != nil {
		return nil, err
	}
	for i, c := range charges {
		b := &boundCharge{Charge: c, bound: bound[i]}
		if c.Limits != nil {
			if b.variants, err = admission.NewVariants(store, c.Policy, all[i].Key.Kind(), &b.bound, ErrInvalidOptions); err != nil {
				return nil, err
			}
		}
		s.add(b)
	}
	if err := checkHolds(store, charges, bound); err != nil {
		return nil, err
	}
	s.keeper = admission.NewKeeper(store, headgate.DefaultKeepAliveTTL)
	core := &admission.Core{Store: store, Observer: s.opts.Observer}
	for _, g := range []*group{&s.unary, &s.opening, &s.messages} {
		g.core, g.writer, g.addresses = core, writer, addrs
		g.onlyDenials = s.opts.Fields != nil && s.opts.Fields.When == httpfields.OnDenial
		g.setFields()
	}
	return s, nil
}

// checkHolds returns an error for a charge that requires a hold, if the store, PerMessage
// or a queue does not permit it.
func checkHolds(store headgate.Store, charges []Charge, bound []admission.Charge) error {
	setting := ""
	for i := range charges {
		if err := charges[i].checkMessage(i, bound[i].Slots); err != nil {
			return err
		}
		switch {
		case bound[i].Slots:
			setting = slotsSetting
		case charges[i].AdjustCost != nil && setting == "":
			setting = "AdjustCost"
		}
	}
	if setting == "" {
		return nil
	}
	return admission.CheckHolds(store, bound, setting, ErrInvalidOptions)
}

// add adds a charge to the groups that include it.
func (s *Server) add(c *boundCharge) {
	s.unary.charges = append(s.unary.charges, c)
	if c.PerMessage {
		s.messages.charges = append(s.messages.charges, c)
	} else {
		s.opening.charges = append(s.opening.charges, c)
	}
}

// Unary is a [grpc.UnaryServerInterceptor] for grpc.UnaryInterceptor or
// grpc.ChainUnaryInterceptor.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	call := Call{Method: info.FullMethod, Message: req}
	if s.skips(ctx, call) {
		return handler(ctx, req)
	}
	fields, held, err := s.admit(ctx, &s.unary, call)
	if err != nil {
		_ = grpc.SetTrailer(ctx, fields) // returns an error only if ctx has no stream
		return nil, err
	}
	out := unfinished(call)
	defer func() { held.end(ctx, &out) }() // also if the handler panics
	out.Requests = 1
	resp, err := handler(ctx, req)
	if out.finish(err); err == nil {
		out.Responses, out.Message = 1, resp
	}
	if err != nil {
		_ = grpc.SetTrailer(ctx, fields) // a trailer, because clients cannot retry after a header
		return resp, err
	}
	_ = grpc.SetHeader(ctx, fields) // returns an error if the handler has already sent the header
	return resp, nil
}

// Stream is a [grpc.StreamServerInterceptor] for grpc.StreamInterceptor or
// grpc.ChainStreamInterceptor. A message is charged when it has arrived. If a charge
// denies the message, this RecvMsg and all later ones return the error of the denial.
// The handler should then return that error.
func (s *Server) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, call := ss.Context(), Call{Method: info.FullMethod, Stream: true}
	if s.skips(ctx, call) {
		return handler(srv, ss)
	}
	fields, held, err := s.admit(ctx, &s.opening, call)
	if err != nil {
		ss.SetTrailer(fields)
		return err
	}
	limited := &serverStream{ServerStream: ss, server: s, call: call, fields: fields, adjusts: held != nil && held.adjusts}
	out := unfinished(call)
	defer func() { held.end(ctx, limited.count(&out)) }() // also if the handler panics
	err = handler(srv, limited)
	out.finish(err)
	limited.setUnsentFields(err)
	return err
}

func (s *Server) skips(ctx context.Context, call Call) bool {
	return s.opts.Skip != nil && s.opts.Skip(ctx, call)
}

// admit charges a call and, if its decision has a delay, waits for that delay. If the
// call is not allowed, it returns an error. Both for allowed and for denied calls, it
// returns the metadata to send, which may be nil. If the call has a hold, held is not
// nil, err is nil, and the caller must end it.
func (s *Server) admit(ctx context.Context, g *group, call Call) (fields metadata.MD, held *requestState, err error) {
	q := requestStates.Get().(*requestState)
	fields, err = s.decide(ctx, g, call, q)
	if q.IsHeld() {
		return fields, q, err
	}
	q.release()
	return fields, nil, err
}

// decide does the work of admit.
func (s *Server) decide(ctx context.Context, g *group, call Call, q *requestState) (metadata.MD, error) {
	err := g.collect(ctx, call, q)
	if err != nil {
		return nil, s.storeError(ctx, call, err)
	}
	if len(q.charges) == 0 {
		return nil, nil
	}
	var d headgate.Decision
	if q.adjusts || q.HasSlots() {
		d, err = q.DecideAndHold(ctx, headgate.DefaultKeepAliveTTL)
		q.Keep(s.keeper)
	} else {
		d, err = q.Decide(ctx)
	}
	switch {
	case err != nil:
		return nil, s.storeError(ctx, call, err)
	case !d.Allowed:
		return s.deny(ctx, g, call, q, &d)
	}
	if err := q.AwaitTurn(ctx, d.Delay); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if g == &s.messages {
		return nil, nil // the header already has the fields of the stream's opening
	}
	return g.fieldMetadata(q, &d), nil
}

// end ends the hold of a call: it adjusts the costs to how the call ended, and makes its
// slots available. q may be nil.
func (q *requestState) end(ctx context.Context, out *Response) {
	if q == nil {
		return
	}
	defer q.release()
	if q.adjusts {
		q.adjust(ctx, *out)
	} else {
		q.CommitAsCharged(ctx)
	}
}

func (s *Server) deny(ctx context.Context, g *group, call Call, q *requestState, d *headgate.Decision) (metadata.MD, error) {
	denial := &Denial{Decision: *d}
	parts := q.Parts()
	for i, c := range q.charges {
		denial.add(c.name(), parts[i].Charge.Limits, q.DecisionsOf(&parts[i]))
	}
	err := s.opts.DeniedHandler(ctx, call, denial)
	if err == nil {
		return nil, nil
	}
	fields := g.fieldMetadata(q, d)
	if s.opts.Pushback > 0 {
		if fields == nil {
			fields = make(metadata.MD, 1)
		}
		fields.Set(pushbackKey, pushback(ctx, d, s.opts.Pushback))
	}
	return fields, err
}

func (s *Server) storeError(ctx context.Context, call Call, err error) error {
	switch {
	case ctx.Err() != nil: // the client has disconnected, or the deadline has passed
		return status.FromContextError(ctx.Err()).Err()
	case s.opts.ErrorHandler != nil:
		return s.opts.ErrorHandler(ctx, call, err)
	default:
		return unavailableError(err)
	}
}

// serverStream is a stream that charges each message when it arrives. With its header
// it sends the rate limit fields of the decision on the opening of the stream.
type serverStream struct {
	grpc.ServerStream
	server *Server
	call   Call
	denied error // error of the denied message, or nil; accessed by the receiving goroutine only

	adjusts        bool         // whether the response of the stream adjusts a cost
	received, sent atomic.Int64 // number of messages

	mu         sync.Mutex
	last       any         // last message that was sent, if adjusts is true
	fields     metadata.MD // rate limit fields to send with the header
	headerSent bool        // whether the fields were added to the header
}

// RecvMsg receives a message and charges it. It returns an error if a charge denies the
// message.
func (s *serverStream) RecvMsg(m any) error {
	if s.denied != nil {
		return s.denied
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	s.received.Add(1)
	if len(s.server.messages.charges) == 0 {
		return nil
	}
	call := s.call
	call.Message = m
	fields, _, err := s.server.admit(s.Context(), &s.server.messages, call) // has no hold: see checkMessage
	if s.denied = err; err != nil {
		s.replaceFields(fields)
	}
	return err
}

// SendMsg sends the header with the rate limit fields before the first message.
func (s *serverStream) SendMsg(m any) error {
	s.setHeaderFields()
	if err := s.ServerStream.SendMsg(m); err != nil {
		return err
	}
	if s.sent.Add(1); s.adjusts {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = m
	}
	return nil
}

// count records the messages of the stream in out and returns out.
func (s *serverStream) count(out *Response) *Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Requests, out.Responses, out.Message = s.received.Load(), s.sent.Load(), s.last
	return out
}

// SendHeader sends the header with md and the rate limit fields.
func (s *serverStream) SendHeader(md metadata.MD) error {
	s.setHeaderFields()
	return s.ServerStream.SendHeader(md)
}

func (s *serverStream) setHeaderFields() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.headerSent {
		s.headerSent = true
		// returns an error if the handler sent a header on the inner stream; the fields
		// are then omitted
		_ = s.SetHeader(s.fields)
	}
}

// replaceFields replaces the rate limit fields by the fields of a denied message. It
// has no effect if the header was already sent.
func (s *serverStream) replaceFields(fields metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fields = fields
}

// setUnsentFields sends the rate limit fields if the handler has returned without
// sending a header. If the handler returned an error, the fields are sent as a trailer,
// because clients cannot retry after a header; HTTP/2 then sends the trailer in place
// of a header. If a header was sent, setUnsentFields does nothing: the fields would be
// in an HTTP trailer, where the IETF draft forbids them.
func (s *serverStream) setUnsentFields(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.headerSent:
	case err != nil:
		s.SetTrailer(s.fields)
	default:
		_ = s.SetHeader(s.fields) // the error is ignored as in setHeaderFields
	}
}

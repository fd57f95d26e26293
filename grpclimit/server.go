package grpclimit

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
)

// Server provides the interceptors of a server. Create it with [NewServer]. It retains
// nothing of a call and may be used concurrently and by several servers.
type Server struct {
	opts     Options
	unary    group // all charges
	opening  group // charges made when a stream opens
	messages group // charges made for each message of a stream
}

// NewServer returns interceptors that allow a call if every charge that applies allows
// it. If one charge denies, none is spent. NewServer returns an error for everything
// that headgate.New rejects, and for invalid keys and options. It does no I/O. opts may
// be nil.
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
		s.add(&boundCharge{c, bound[i]})
	}
	core := &admission.Core{Store: store, Observer: s.opts.Observer}
	for _, g := range []*group{&s.unary, &s.opening, &s.messages} {
		g.core, g.writer, g.addresses = core, writer, addrs
		g.onlyDenials = s.opts.Fields != nil && s.opts.Fields.When == httpfields.OnDenial
		g.setFields()
	}
	return s, nil
}

// add adds a charge to the groups in which it is made.
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
	fields, err := s.admit(ctx, &s.unary, call)
	if err != nil {
		_ = grpc.SetTrailer(ctx, fields) // fails only without a stream
		return nil, err
	}
	resp, err := handler(ctx, req)
	if err != nil {
		_ = grpc.SetTrailer(ctx, fields) // after a header clients cannot retry
		return resp, err
	}
	_ = grpc.SetHeader(ctx, fields) // fails if the handler has already sent its header
	return resp, nil
}

// Stream is a [grpc.StreamServerInterceptor] for grpc.StreamInterceptor or
// grpc.ChainStreamInterceptor. A charge for messages is made when a message has
// arrived. If it is denied, this and every later RecvMsg returns the error, which the
// handler should return.
func (s *Server) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, call := ss.Context(), Call{Method: info.FullMethod, Stream: true}
	if s.skips(ctx, call) {
		return handler(srv, ss)
	}
	fields, err := s.admit(ctx, &s.opening, call)
	if err != nil {
		ss.SetTrailer(fields)
		return err
	}
	limited := &serverStream{ServerStream: ss, server: s, call: call, fields: fields}
	err = handler(srv, limited)
	limited.setUnsentFields(err)
	return err
}

func (s *Server) skips(ctx context.Context, call Call) bool {
	return s.opts.Skip != nil && s.opts.Skip(ctx, call)
}

// admit charges a call and delays it until its turn. It returns the error of a call
// that is not allowed. In both cases it returns the metadata to send.
func (s *Server) admit(ctx context.Context, g *group, call Call) (metadata.MD, error) {
	q := requestStates.Get().(*requestState)
	defer q.release()
	err := g.collect(ctx, call, q)
	if err != nil {
		return nil, s.storeError(ctx, call, err)
	}
	if len(q.charges) == 0 {
		return nil, nil
	}
	d, err := q.Decide(ctx)
	switch {
	case err != nil:
		return nil, s.storeError(ctx, call, err)
	case !d.Allowed:
		return s.deny(ctx, g, call, q, &d)
	}
	if err := q.Hold(ctx, d.Delay); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if g == &s.messages {
		return nil, nil // the header has the fields of the stream's opening
	}
	return g.fieldMetadata(q, &d), nil
}

func (s *Server) deny(ctx context.Context, g *group, call Call, q *requestState, d *headgate.Decision) (metadata.MD, error) {
	denial := &Denial{Decision: *d}
	parts := q.Parts()
	for i, c := range q.charges {
		denial.add(c.name(), c.bound.Limits, q.DecisionsOf(&parts[i]))
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
	case ctx.Err() != nil: // the client has left, or its deadline has passed
		return status.FromContextError(ctx.Err()).Err()
	case s.opts.ErrorHandler != nil:
		return s.opts.ErrorHandler(ctx, call, err)
	default:
		return unavailableError(err)
	}
}

// serverStream charges messages as they arrive. It sends the fields of the stream's
// opening with the header.
type serverStream struct {
	grpc.ServerStream
	server *Server
	call   Call
	denied error // the error of a denied message; used by the receiving goroutine only

	mu         sync.Mutex
	fields     metadata.MD // to send with the header
	headerSent bool        // the header is sent
}

// RecvMsg receives a message and charges it.
func (s *serverStream) RecvMsg(m any) error {
	if s.denied != nil {
		return s.denied
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if len(s.server.messages.charges) == 0 {
		return nil
	}
	call := s.call
	call.Message = m
	var fields metadata.MD
	if fields, s.denied = s.server.admit(s.Context(), &s.server.messages, call); s.denied != nil {
		s.replaceFields(fields)
	}
	return s.denied
}

// SendMsg sends the header before the first message.
func (s *serverStream) SendMsg(m any) error {
	s.setHeaderFields()
	return s.ServerStream.SendMsg(m)
}

// SendHeader sends the header with the fields.
func (s *serverStream) SendHeader(md metadata.MD) error {
	s.setHeaderFields()
	return s.ServerStream.SendHeader(md)
}

func (s *serverStream) setHeaderFields() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.headerSent {
		s.headerSent = true
		// fails if a header was sent on the inner stream; the fields are then omitted
		_ = s.SetHeader(s.fields)
	}
}

// replaceFields replaces the fields with those of a denied message, if none are sent yet.
func (s *serverStream) replaceFields(fields metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fields = fields
}

// setUnsentFields sets the fields of a stream on which no header was sent. With an
// error it sets a trailer: clients cannot retry after a header, and HTTP/2 sends the
// trailer as the header then. If a header was sent, it sets nothing: the fields would
// be in an HTTP trailer, where the IETF draft forbids them.
func (s *serverStream) setUnsentFields(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.headerSent:
	case err != nil:
		s.SetTrailer(s.fields)
	default:
		_ = s.SetHeader(s.fields) // as in setHeaderFields
	}
}

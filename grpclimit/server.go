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

// Server has the interceptors of a server. It is made with [NewServer], keeps nothing of a call, and may be used concurrently and
// by several servers.
type Server struct {
	opts     Options
	unary    group // all charges
	opening  group // those made when a stream opens
	messages group // those made for each message of a stream
}

// NewServer makes interceptors that admit a call if every charge that holds for it does, and else spend nothing. It refuses what
// headgate.New refuses, keys and options that cannot work, and does no I/O. opts may be nil.
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
	charges, all, err := keyed(store, charges, false)
	if err != nil {
		return nil, err
	}
	bound, err := admission.BindAll(store, all, ErrInvalidOptions)
	if err != nil {
		return nil, err
	}
	address, err := newAddresses(s.opts.Client)
	if err != nil {
		return nil, err
	}
	writer, err := httpfields.New(s.opts.Fields)
	if err != nil {
		return nil, err
	}
	for i, c := range charges {
		s.add(&rules{c, bound[i]})
	}
	core := &admission.Core{Store: store, Observer: s.opts.Observer}
	for _, g := range []*group{&s.unary, &s.opening, &s.messages} {
		g.core, g.writer, g.address = core, writer, address
		g.silent = s.opts.Fields != nil && s.opts.Fields.When == httpfields.OnDenial
		g.setFields()
	}
	return s, nil
}

// add puts a charge into the groups that make it.
func (s *Server) add(r *rules) {
	s.unary.rules = append(s.unary.rules, r)
	if r.PerMessage {
		s.messages.rules = append(s.messages.rules, r)
	} else {
		s.opening.rules = append(s.opening.rules, r)
	}
}

// Unary is a [grpc.UnaryServerInterceptor]: for grpc.UnaryInterceptor or grpc.ChainUnaryInterceptor.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	call := Call{Method: info.FullMethod, Message: req}
	if s.skips(ctx, call) {
		return handler(ctx, req)
	}
	fields, err := s.admit(ctx, &s.unary, call)
	if err != nil {
		_ = grpc.SetTrailer(ctx, fields) // fails only without a stream, where nobody would see it
		return nil, err
	}
	resp, err := handler(ctx, req)
	if err != nil {
		_ = grpc.SetTrailer(ctx, fields) // a header would keep clients from retrying
		return resp, err
	}
	_ = grpc.SetHeader(ctx, fields) // fails if the handler has sent its header already: then the call goes without
	return resp, nil
}

// Stream is a [grpc.StreamServerInterceptor]: for grpc.StreamInterceptor or grpc.ChainStreamInterceptor. A charge for messages is
// made when one has arrived; if it is denied, this and every later RecvMsg returns the error, for the handler to return.
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
	limited.end(err)
	return err
}

func (s *Server) skips(ctx context.Context, call Call) bool {
	return s.opts.Skip != nil && s.opts.Skip(ctx, call)
}

// admit returns no error once the call may go ahead, and else what to answer; in both cases with the metadata to tell.
func (s *Server) admit(ctx context.Context, g *group, call Call) (metadata.MD, error) {
	q := requestStates.Get().(*requestState)
	defer q.release()
	err := g.collect(ctx, call, q)
	if err != nil {
		return nil, s.undecided(ctx, call, err)
	}
	if len(q.rules) == 0 {
		return nil, nil
	}
	d, err := q.Decide(ctx)
	switch {
	case err != nil:
		return nil, s.undecided(ctx, call, err)
	case !d.Allowed:
		return s.deny(ctx, g, call, q, &d)
	}
	if err := q.Hold(ctx, d.Delay); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if g == &s.messages {
		return nil, nil // the header told of the opening
	}
	return g.fields(q, &d), nil
}

func (s *Server) deny(ctx context.Context, g *group, call Call, q *requestState, d *headgate.Decision) (metadata.MD, error) {
	denial := &Denial{Decision: *d}
	parts := q.Parts()
	for i, r := range q.rules {
		denial.add(r.name(), r.bound.Limits, q.DecisionsOf(&parts[i]))
	}
	err := s.opts.DeniedHandler(ctx, call, denial)
	if err == nil {
		return nil, nil
	}
	fields := g.fields(q, d)
	if s.opts.Pushback > 0 {
		if fields == nil {
			fields = make(metadata.MD, 1)
		}
		fields.Set(pushbackName, pushback(ctx, d, s.opts.Pushback))
	}
	return fields, err
}

func (s *Server) undecided(ctx context.Context, call Call, err error) error {
	switch {
	case ctx.Err() != nil: // the client is gone, so there was no time to decide
		return status.FromContextError(ctx.Err()).Err()
	case s.opts.ErrorHandler != nil:
		return s.opts.ErrorHandler(ctx, call, err)
	default:
		return undecided(err)
	}
}

// serverStream charges messages as they arrive, and tells of the opening with the header.
type serverStream struct {
	grpc.ServerStream
	server *Server
	call   Call
	denied error // what a message was answered; for the goroutine that receives

	mu     sync.Mutex
	fields metadata.MD // to be told with the header
	sent   bool        // the header is on its way
}

// RecvMsg receives a message and charges it.
func (s *serverStream) RecvMsg(m any) error {
	if s.denied != nil {
		return s.denied
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if len(s.server.messages.rules) == 0 {
		return nil
	}
	call := s.call
	call.Message = m
	var fields metadata.MD
	if fields, s.denied = s.server.admit(s.Context(), &s.server.messages, call); s.denied != nil {
		s.replace(fields)
	}
	return s.denied
}

// SendMsg sends the header before the first message.
func (s *serverStream) SendMsg(m any) error {
	s.tell()
	return s.ServerStream.SendMsg(m)
}

// SendHeader sends the header, if that was not done.
func (s *serverStream) SendHeader(md metadata.MD) error {
	s.tell()
	return s.ServerStream.SendHeader(md)
}

func (s *serverStream) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sent {
		s.sent = true
		_ = s.SetHeader(s.fields) // fails if somebody sent a header around this stream: then the call goes without
	}
}

// replace has the stream tell of a message that was denied, if it has told nothing yet.
func (s *serverStream) replace(fields metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fields = fields
}

// end tells what was not told because nothing was sent. With an error it is a trailer, since clients cannot retry after a header;
// to HTTP it is the header then. After a header it would be a trailer to HTTP as well, where the draft forbids its fields.
func (s *serverStream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.sent:
	case err != nil:
		s.SetTrailer(s.fields)
	default:
		_ = s.SetHeader(s.fields) // as in tell
	}
}

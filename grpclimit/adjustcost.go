package grpclimit

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/admission"
)

// Response describes how a call ended.
type Response struct {
	Call Call
	// Code is the status code of the call. On a server it is Internal if the handler
	// panicked, and the code that gRPC sends for an error without a status.
	Code codes.Code
	Err  error // error of the call; nil if it succeeded or the handler panicked
	// Requests is the number of messages from the client that the handler has received,
	// and on a client that the caller has sent. Responses is the number of messages from
	// the server that the handler has sent, and on a client that the caller has received.
	Requests, Responses int64
	// Message is the last message from the server, for example with the usage of the
	// call. It is nil if there was none. It must not be modified.
	Message  any
	Charged  int64 // units charged before the call
	Panicked bool  // true if the handler panicked; the panic continues after AdjustCost
}

// OnlyFailures is an AdjustCost function with which only failed calls, such as a login
// with a wrong password, stay charged. The cost is 0 if the code is OK.
func OnlyFailures(_ context.Context, r Response) int64 {
	if r.Code == codes.OK {
		return 0
	}
	return r.Charged
}

// OnlySuccesses is an AdjustCost function with which only successful calls stay charged.
// The cost is 0 unless the code is OK. A client that can make calls fail can therefore
// make any number of them, for example by cancelling each call.
func OnlySuccesses(ctx context.Context, r Response) int64 { return r.Charged - OnlyFailures(ctx, r) }

// OnlyCodes returns an AdjustCost function with which the cost is 0 unless the code is
// one of list, such as PERMISSION_DENIED and UNAUTHENTICATED for a login.
func OnlyCodes(list ...codes.Code) func(context.Context, Response) int64 {
	list = slices.Clone(list)
	return func(_ context.Context, r Response) int64 {
		if slices.Contains(list, r.Code) {
			return r.Charged
		}
		return 0
	}
}

// unfinished returns the response for a call whose handler has not returned. If the
// handler never returns, it has panicked.
func unfinished(call Call) Response {
	return Response{Call: call, Code: codes.Internal, Panicked: true}
}

// finish records the error with which a call has ended, or nil.
func (r *Response) finish(err error) {
	r.Panicked, r.Err, r.Code = false, err, codeOf(err)
}

// codeOf returns the code that gRPC sends if a handler returns err.
func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}

// adjust ends the hold of q with the final cost of each charge.
func (q *requestState) adjust(ctx context.Context, resp Response) {
	q.Adjust(ctx, func(i int, charged int64) int64 {
		adjust := q.charges[i].AdjustCost
		if adjust == nil {
			return admission.AsCharged
		}
		resp.Charged = charged
		return max(adjust(ctx, resp), 0)
	})
}

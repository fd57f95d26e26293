package respapi

import (
	"time"
	"unsafe"
)

// session is the protocol state of one connection. Only the goroutine that serves the
// connection uses it.
type session struct {
	reader        reader
	id            int64
	version       int8 // RESP version: 2 or 3
	authenticated bool // true after AUTH, or if no password is required
	scopes        scopes
	closing       bool // whether the connection is to be closed without reading further requests
	failures      int8 // number of wrong passwords so far
	user, name    string
	traceparent   string    // parent of the span of the next decision; empty if there is none
	library       [2]string // name and version of the client library
	addrs         [2]string // address of the client, and local address
	since         time.Time
	multi         *transaction // transaction since MULTI; nil if there is none
}

// newSession returns a session for a connection. client is the client's address, and
// ours the local address.
func (h *Handler) newSession(client, ours string) *session {
	s := &session{id: h.clients.accepted.Add(1), addrs: [2]string{client, ours}, since: time.Now()}
	s.reset(h)
	return s
}

// reset gives the session the state of a new connection.
func (s *session) reset(h *Handler) {
	s.version, s.authenticated, s.scopes, s.user, s.name, s.multi, s.traceparent = 2, h.credentials.Load() == nil, allScopes, defaultUser, "", nil, ""
}

func (h *Handler) boundsFor(s *session) bounds {
	if s.authenticated {
		return h.bounds
	}
	return h.unauthenticatedBounds
}

// memory returns the memory of an incomplete request or transaction, in bytes, without
// the input buffer.
func (s *session) memory() int64 {
	n := int64(cap(s.reader.args)) * int64(unsafe.Sizeof(argRange{}))
	if s.multi != nil {
		n += int64(cap(s.multi.requests))
	}
	return n
}

package respapi

import "time"

// session is the protocol state of one connection. It belongs to the goroutine that
// serves the connection.
type session struct {
	reader        reader
	id            int64
	version       int8 // RESP version: 2 or 3
	authenticated bool // or no password is required
	closing       bool // no more requests are read
	failures      int8 // wrong passwords so far
	user, name    string
	library       [2]string // its name and version
	addrs         [2]string // the client's address and the local one
	since         time.Time
	multi         *transaction // nil outside of MULTI
}

// newSession returns a session for a connection between two addresses.
func (h *Handler) newSession(client, ours string) *session {
	s := &session{id: h.clients.accepted.Add(1), addrs: [2]string{client, ours}, since: time.Now()}
	s.reset(h)
	return s
}

// reset restores the state of a new connection.
func (s *session) reset(h *Handler) {
	s.version, s.authenticated, s.user, s.name, s.multi = 2, h.credentials == nil, defaultUser, "", nil
}

func (h *Handler) boundsFor(s *session) bounds {
	if s.authenticated {
		return h.bounds
	}
	return h.unauthenticatedBounds
}

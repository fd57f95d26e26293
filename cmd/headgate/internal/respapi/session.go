package respapi

import "time"

// session is what the door knows of one connection. It belongs to the goroutine that serves it.
type session struct {
	reader     reader
	id         int64
	version    int8 // of the protocol: 2 or 3
	welcome    bool // it has said who it is, or need not
	closing    bool // nothing more is read of it
	failures   int8 // how often it said a wrong password
	user, name string
	library    [2]string // its name and version
	addrs      [2]string // the client's and ours
	since      time.Time
	multi      *transaction // nil outside of one
}

// open begins a session.
func (h *Handler) open(client, ours string) *session {
	s := &session{id: h.clients.all.Add(1), addrs: [2]string{client, ours}, since: time.Now()}
	s.reset(h)
	return s
}

// reset makes the session as if new.
func (s *session) reset(h *Handler) {
	s.version, s.welcome, s.user, s.name, s.multi = 2, h.login == nil, defaultUser, "", nil
}

func (h *Handler) boundsFor(s *session) bounds {
	if s.welcome {
		return h.known
	}
	return h.unknown
}

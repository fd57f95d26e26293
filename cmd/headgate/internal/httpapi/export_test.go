package httpapi

// Memory returns the memory that the connections of a server hold, in bytes, and the
// number of connections that were closed to make room.
func Memory(s *Server) (bytes, closed int64) {
	return s.limits.Connections.Bytes(), s.limits.Connections.Closed()
}

package rlsapi

// NewCodec and ReadRequest export the codec for tests.
var (
	NewCodec    = newCodec
	ReadRequest = readRequest
)

// Memory returns the memory that the connections of a server hold, in bytes, and the
// number of connections that were closed to make room.
func Memory(s *Server) (bytes, closed int64) { return s.connections.Bytes(), s.connections.Closed() }

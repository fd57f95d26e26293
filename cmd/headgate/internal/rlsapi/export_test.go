package rlsapi

// NewCodec and ReadRequest export the codec for tests.
var (
	NewCodec    = newCodec
	ReadRequest = readRequest
)

package rlsapi

// NewCodec and ReadRequest are for the tests of the codec.
var (
	NewCodec    = newCodec
	ReadRequest = readRequest
)

package logs

import (
	"bytes"
	"log"
	"log/slog"
	"regexp"
	"time"
)

const (
	maxLinesPerSecond = 10   // maximum number of lines from one HTTP server
	maxMessageBytes   = 8192 // maximum size of a line; the message of a panic contains a stack trace
)

// ForHTTP returns an ErrorLog for a [net/http.Server]. The server logs an error for
// each broken connection, with the address of the client. The returned log writes such
// errors as warnings without addresses, at most ten per second, each with the number of
// lines that were suppressed before it. If the logger is nil, nothing is logged.
func ForHTTP(to *slog.Logger) *log.Logger {
	if to == nil {
		to = slog.New(slog.DiscardHandler)
	}
	return log.New(&httpErrors{to: to}, "", 0)
}

type httpErrors struct {
	to      *slog.Logger
	sampler Sampler
}

// address matches a socket address as package net formats it: with a port, and with an
// IPv6 address in brackets.
var address = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}:\d+\b|\[[0-9a-fA-F:.]+(%[^\]\s]*)?\]:\d+\b`)

// Write logs one message, unless the sampler suppresses it.
func (h *httpErrors) Write(message []byte) (int, error) {
	suppressed, ok := h.sampler.Take(time.Now().UnixNano(), maxLinesPerSecond)
	if !ok {
		return len(message), nil
	}
	text := address.ReplaceAll(bytes.TrimSpace(message), []byte("…"))
	text = text[:min(len(text), maxMessageBytes)]
	h.to.Warn("HTTP server error", "error", string(text), "suppressed", suppressed)
	return len(message), nil
}

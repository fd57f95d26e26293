package logs

import (
	"bytes"
	"log"
	"log/slog"
	"regexp"
	"time"
)

// Bounds on what a server for HTTP logs.
const (
	perSecond = 10   // lines
	mostShown = 8192 // bytes of one: a panic comes with a stack
)

// ForHTTP is the ErrorLog of a [net/http.Server], which tells of each broken connection, and of whom it is: here it is a warning without
// addresses, and ten in a second at most, each with how many were left out before it. A nil log stays silent.
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

// address is one of a socket as Go writes it: with a port, an IPv6 address in brackets.
var address = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}:\d+\b|\[[0-9a-fA-F:.]+(%[^\]\s]*)?\]:\d+\b`)

// Write logs one message.
func (h *httpErrors) Write(message []byte) (int, error) {
	leftOut, ok := h.sampler.Take(time.Now().UnixNano(), perSecond)
	if !ok {
		return len(message), nil
	}
	text := address.ReplaceAll(bytes.TrimSpace(message), []byte("…"))
	h.to.Warn("the server for HTTP", "cause", string(text[:min(len(text), mostShown)]), "left_out", leftOut)
	return len(message), nil
}

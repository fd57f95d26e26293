package rlsapi

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// ServeJSON serves the path /json of envoyproxy/ratelimit: a RateLimitRequest and its
// RateLimitResponse, both as JSON. The status is 200, or 429 if the request is over its
// limits or its body is too long. It is 400 for every error, including an incomplete
// body; with [Options].Unavailable503, it is 503 if the store is unavailable. In the
// body, bytes that are not UTF-8 and unpaired surrogates are read as U+FFFD.
func (h *Handler) ServeJSON(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.opts.MaxBodyBytes)))
	resp, err := h.decideJSON(r, body, err)
	switch {
	case h.opts.Unavailable503 && status.Code(err) == codes.Unavailable:
		http.Error(w, "Service Unavailable", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, "Bad Request", http.StatusBadRequest)
	default:
		writeJSON(w, resp)
	}
}

var errInvalidJSON = status.Error(codes.InvalidArgument, "invalid JSON")

// decideJSON returns the response to a request with the given body, or with the part of
// it that was read before an error.
func (h *Handler) decideJSON(r *http.Request, body []byte, readErr error) (*pb.RateLimitResponse, error) {
	if tooLong := new(http.MaxBytesError); errors.As(readErr, &tooLong) {
		return h.deny(tooManyBytes)
	}
	if readErr != nil {
		return nil, errInvalidJSON
	}
	body, objects := cleanJSON(body)
	if objects > maxObjects {
		return h.deny(tooManyDescriptors)
	}
	req := new(pb.RateLimitRequest)
	if protojson.Unmarshal(body, req) != nil {
		return nil, errInvalidJSON
	}
	return h.ShouldRateLimit(r.Context(), req)
}

// maxObjects is the maximum number of objects in a body. It bounds the memory for
// decoding it. A request that is not too large has fewer: an object for each descriptor
// and its limit, and for each entry.
const maxObjects = 1 + 2*maxDescriptors + maxEntries

// cleanJSON replaces what a text in the JSON body must not contain by U+FFFD: bytes
// that are not UTF-8, and escapes of surrogates that are not pairs. Otherwise a client
// that chooses such a value would cause an error. cleanJSON also returns the number of
// objects.
func cleanJSON(body []byte) (clean []byte, objects int) {
	clean = make([]byte, 0, len(body))
	inText := false
	for len(body) > 0 {
		n, valid := 1, true
		switch c := body[0]; {
		case c >= utf8.RuneSelf:
			var r rune
			r, n = utf8.DecodeRune(body)
			valid = r != utf8.RuneError || n > 1
		case c == '"':
			inText = !inText
		case c == '\\' && inText:
			n, valid = readEscape(body)
		case c == '{' && !inText:
			objects++
		}
		if valid {
			clean = append(clean, body[:n]...)
		} else {
			clean = append(clean, "\uFFFD"...)
		}
		body = body[n:]
	}
	return clean, objects
}

// readEscape returns the length of the escape sequence at the start of b, or of two
// sequences that are a pair of surrogates. It is invalid if it is a surrogate without its
// pair.
func readEscape(b []byte) (n int, valid bool) {
	first := readUnit(b)
	switch {
	case first < 0:
		return min(2, len(b)), true
	case !utf16.IsSurrogate(first):
		return 6, true
	case utf16.DecodeRune(first, readUnit(b[6:])) != utf8.RuneError:
		return 12, true
	}
	return 6, false
}

// readUnit returns the UTF-16 code unit of the escape sequence (\uXXXX) at the start of
// b, or -1 if b has none.
func readUnit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

func writeJSON(w http.ResponseWriter, resp *pb.RateLimitResponse) {
	body, err := protojson.Marshal(resp)
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if resp.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(body) // fails only if the client has disconnected
}

// ServeHealth serves the path /healthcheck of envoyproxy/ratelimit: status 200 with the
// body OK, or status 500 without a body.
func (h *Handler) ServeHealth(w http.ResponseWriter, _ *http.Request) {
	if !h.Healthy() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "OK") // fails only if the client has disconnected
}

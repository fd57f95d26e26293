package mutation

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// timeout bounds the wait for a response. A server that does not respond within it
	// has stopped serving, on the slowest machine too.
	timeout = time.Minute
	// incomplete is how long a server may wait for the rest of a request before Send ends
	// the output. A server cancels a complete request if the output ends, so this is not
	// done immediately.
	incomplete = 100 * time.Millisecond
)

// HTTPRequest returns a mutated HTTP/1.1 request, as a client may write it to a
// connection. Most are valid: only the target, a field or the body is unusual.
func HTTPRequest(rng *rand.Rand, method, target, body string, fields ...string) string {
	line := []string{method, target, "HTTP/1.1"}
	header := []string{"Host: shop.test"}
	for i := 0; i < len(fields); i += 2 {
		header = append(header, fields[i]+": "+fields[i+1])
	}
	switch rng.IntN(8) {
	case 0:
		line[0] = Value(rng, method, "GET", "OPTIONS", "CONNECT", "PRI")
	case 1, 2:
		line[1] = Value(rng, target, "/", "*", "http://shop.test"+target, "shop.test:80", target+"?a=b", "/%2e%2e"+target)
	case 3:
		line[2] = Value(rng, "HTTP/1.0", "HTTP/2.0", "HTTP/1.1", "HTTP/0.9")
	case 4:
		header[rng.IntN(len(header))] = Mutate(rng, header[rng.IntN(len(header))])
	}
	for range rng.IntN(3) {
		header = append(header, field(rng, fields))
	}
	for range rng.IntN(10) / 9 * Length(rng) / 16 {
		header = append(header, "X-Many: "+Value(rng, "a"))
	}
	if body != "" {
		header = append(header, fmt.Sprint("Content-Length: ", len(body)))
	}
	header = append(header, "Connection: close")
	rng.Shuffle(len(header), func(i, j int) { header[i], header[j] = header[j], header[i] })
	text := strings.Join(line, " ") + "\r\n" + strings.Join(header, "\r\n") + "\r\n\r\n" + body
	if rng.IntN(8) == 0 {
		text = Mutate(rng, text)
	}
	return text
}

// field returns a line of a header: one of the given fields, or one that changes how
// programs read a request, with any value.
func field(rng *rand.Rand, fields []string) string {
	names := []string{
		"X-Forwarded-For", "X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Original-URI", "X-Original-Method",
		"X-Real-IP", "Forwarded", "Host", "Connection", "Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "TE", "Trailer", "Cookie",
		"X-HTTP-Method-Override", "Content-Type", "Authorization", "Range", "Max-Forwards", "X-RateLimit-Decision",
	}
	for i := 0; i < len(fields); i += 2 {
		names = append(names, fields[i], fields[i])
	}
	return pick(rng, names) + ": " + Value(rng, "203.0.113.9", "/free", "GET", "shop.test", "chunked", "5", "keep-alive, X-Forwarded-For", "allow")
}

// Response is an HTTP response.
type Response struct {
	Status int
	Body   string
}

// Send writes a request to a new connection to addr, from the address local (empty
// means any), and returns all responses. Interim responses are not included. If there
// is no response because the request is incomplete, Send ends the output. It returns an
// error if the server neither responds nor closes the connection.
func Send(local, addr, request string) (all []Response, err error) {
	return send(local, addr, request, time.After(incomplete))
}

// SendComplete is like Send for a request that is complete: it does not end the output
// before the response, and returns an error if there is none.
func SendComplete(local, addr, request string) (all []Response, err error) {
	all, err = send(local, addr, request, nil)
	if err == nil && len(all) == 0 {
		err = errNoResponse
	}
	return all, err
}

var errNoResponse = errors.New("the server closed the connection without a response")

func send(local, addr, request string, end <-chan time.Time) (all []Response, err error) {
	dialer := net.Dialer{Timeout: timeout}
	if local != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(local)}
	}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	tcp := conn.(*net.TCPConn)
	_ = tcp.SetLinger(0) // a connection in TIME_WAIT would take a port
	_ = conn.SetDeadline(time.Now().Add(timeout))
	written, answered := make(chan struct{}), make(chan struct{})
	go func() { // the server may respond before it has read everything
		defer close(written)
		_, _ = io.WriteString(conn, request)
		select {
		case <-answered:
		case <-end:
		}
		_ = tcp.CloseWrite()
	}()
	all, err = readResponses(conn, sync.OnceFunc(func() { close(answered) }))
	_ = conn.Close() // ends the writer, if the server has not read everything
	<-written
	return all, err
}

// readResponses reads HTTP responses until the server closes the connection, or until it
// sends something else. It calls answered after each response.
func readResponses(conn net.Conn, answered func()) (all []Response, err error) {
	defer answered()
	for in := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			if timedOut := net.Error(nil); errors.As(err, &timedOut) && timedOut.Timeout() {
				return all, fmt.Errorf("after %v: %w", timeout, err)
			}
			return all, nil
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode >= 200 {
			all = append(all, Response{resp.StatusCode, string(body)})
		}
		if err != nil {
			return all, nil
		}
		answered()
	}
}

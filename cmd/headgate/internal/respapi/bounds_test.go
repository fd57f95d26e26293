package respapi

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// ended is the only reply to a request that exceeds a bound.
func ended(why protocolError) string { return "-ERR " + why.Error() + "\r\n" }

// echo returns a request of n bytes and its reply.
func echo(size int) (asked, reply string) {
	text := strings.Repeat("x", size-len(request("ECHO", strings.Repeat("x", 1000)))+1000)
	if size > 10_000 {
		text = text[1:] // its length has one more digit
	}
	return request("ECHO", text), fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
}

// TestDefaultBounds tests each default bound at its maximum and one above.
func TestDefaultBounds(t *testing.T) {
	t.Parallel()
	const most, unauthenticatedSize = DefaultMaxRequestBytes, unauthenticatedBytes
	key := strings.Repeat("k", 1024)
	whole, wholeReply := echo(most)
	over, _ := echo(most + 1)
	largest, _ := echo(unauthenticatedSize)
	tooLarge, _ := echo(unauthenticatedSize + 1)
	line := "PING " + strings.Repeat(" ", most-len("PING \n")) + "\n"
	for _, tt := range []struct{ name, password, input, want string }{
		{"request", "", whole, wholeReply},
		{"request + 1", "", over, ended(errTooBig)},
		{"line", "", line, "+PONG\r\n"},
		{"line + 1", "", " " + line, ended(errInlineLength)},
		{"arguments", "", request(append([]string{"ECHO"}, make([]string, 1023)...)...), "-ERR wrong number of arguments for 'echo' command\r\n"},
		{"arguments + 1", "", "*1025\r\n", ended(errArrayLength)},
		{"words of a line + 1", "", "ECHO" + strings.Repeat(" x", 1024) + "\n", ended(errArrayLength)},
		{"argument + 1", "", "*1\r\n$16385\r\n", ended(errBulkLength)},
		{"key", "", request("CL.THROTTLE", key, "15", "30", "60"), numbersReply(0, 16, 15, -1, 2)},
		{
			"key + 1", "", request("CL.THROTTLE", key+"k", "15", "30", "60"),
			"-Cell error: Store error: invalid request: the key has 1025 bytes; must be at most 1024\r\n",
		},
		{"name", "", request("CLIENT", "SETNAME", strings.Repeat("n", 128)), okReply},
		{"name + 1", "", request("CLIENT", "SETNAME", strings.Repeat("n", 129)), "-" + errClientName + "\r\n"},
		{"unauthenticated request", "p", largest, noAuth},
		{"unauthenticated request + 1", "p", tooLarge, ended(errTooBig)},
		{"unauthenticated arguments", "p", request("ECHO", "2", "3", "4", "5", "6", "7", "8", "9", "10"), noAuth},
		{"unauthenticated arguments + 1", "p", "*11\r\n", ended(errArrayLength)},
	} {
		h := New(mustEngine(t, newFrozen(t), nil), &Options{Password: tt.password})
		if got := h.replies(t, tt.input); got != tt.want {
			t.Errorf("%s: got %.100q, want %.100q", tt.name, got, tt.want)
		}
	}
}

// TestDisconnectAtAnyByte: a client that disconnects inside a request leaves no state,
// and its complete requests count.
func TestDisconnectAtAnyByte(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		s := serve(t, d, nil, Options{}, nil)
		once := request("CL.THROTTLE", "k", "999", "1", "1")
		dialled, spent := int64(0), int64(0)
		for cut := 1; cut < 2*len(once); cut += 3 {
			conn := s.dial()
			s.write(conn, (once + once)[:cut])
			_ = conn.Close()
			dialled++
			spent += int64(cut / len(once))
		}
		for s.handler.clients.accepted.Load() < dialled {
			runtime.Gosched()
		}
		s.awaitClients(0)
		conn := s.dial()
		s.write(conn, request("CL.THROTTLE", "k", "999", "1", "1", "0"))
		s.expect(conn, numbersReply(0, 1000, 1000-spent, -1, spent))
	})
}

// The memory of all clients together is bounded: clients that send only a part of a
// request are disconnected, and another client is served. The maximum leaves room for
// each connection without a request.
func TestMemoryOfUnfinishedRequests(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		const clients, most = 150, 150*tlsStreamBytes + 1<<20
		s := serve(t, d, nil, Options{MaxMemoryBytes: most, MaxRequestBytes: 1 << 20}, nil)
		good, half := s.dial(), "*2\r\n$4\r\nECHO\r\n$160000\r\n"+strings.Repeat("x", 150_000)
		for i := 0; i < clients || s.handler.clients.open.Closed() == 0; i++ {
			if i >= clients {
				runtime.Gosched() // the server reads
			} else if conn, err := d.dial(s.ln); err == nil {
				defer conn.Close()
				_, _ = io.WriteString(conn, half)
			}
			s.write(good, request("PING"))
			s.expect(good, "+PONG\r\n")
			if n := s.handler.clients.open.Bytes(); n > most+512<<10 { // with the change that is being made
				t.Fatalf("the connections hold %d bytes, want at most %d", n, most)
			}
		}
	})
}

package main

import (
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// attack is one kind of connections to one listener.
type attack struct {
	listener, kind string
	connections    int
	first          func() string      // what each connection sends first
	drip           string             // what each connection sends ten times a second after that
	flood          func(n int) string // what each connection sends without pause after that; n counts from 0
	unread         bool               // whether the connection does not read
	again          bool               // whether closed connections are opened again
}

func (a *attack) name() string { return a.listener + "/" + a.kind }

// attacks are all attacks. Each listener has the same kinds.
var attacks = []attack{
	{listener: "http", kind: "idle", connections: 10_500},
	{listener: "http", kind: "held", connections: 4000, first: httpBody, again: true},
	{listener: "http", kind: "dripping", connections: 3000, first: httpHeader, drip: "x", again: true},
	{listener: "http", kind: "unread", connections: 100, flood: pipelined("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"), unread: true, again: true},
	{listener: "http", kind: "pipeline", connections: 100, flood: pipelined("POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 25\r\n\r\n{\"limit\":\"1/s\",\"key\":\"k\"}"), unread: true, again: true},
	{listener: "http", kind: "huge", connections: 4000, first: httpFields, again: true},
	{listener: "http", kind: "many", connections: 14_000, first: httpHeader, again: true},

	{listener: "grpc", kind: "idle", connections: 4500, first: text(preface)},
	{listener: "grpc", kind: "held", connections: 50, first: text(preface), flood: heldStream, again: true},
	{listener: "grpc", kind: "dripping", connections: 3000, first: grpcPartial, drip: "x", again: true},
	{listener: "grpc", kind: "frames", connections: 50, first: text(preface), flood: smallFrames, again: true},
	{listener: "grpc", kind: "unread", connections: 100, first: text(noWindow), flood: completeRequest, unread: true, again: true},
	{listener: "grpc", kind: "huge", connections: 50, first: text(preface), flood: hugeFields, again: true},
	{listener: "grpc", kind: "reset", connections: 20, first: text(preface), flood: resetStream, again: true},
	{listener: "grpc", kind: "many", connections: 8000, first: grpcPartial, again: true},

	{listener: "resp", kind: "idle", connections: 10_500},
	{listener: "resp", kind: "held", connections: 10_000, first: respPartial, again: true},
	{listener: "resp", kind: "dripping", connections: 3000, first: text("*1\r\n$1000\r\n"), drip: "x", again: true},
	{listener: "resp", kind: "unread", connections: 100, flood: pipelined("*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n"), unread: true, again: true},
	{listener: "resp", kind: "huge", connections: 10_000, first: respTransaction, again: true},
	{listener: "resp", kind: "many", connections: 14_000, first: text("*1\r\n"), again: true},

	{listener: "admin", kind: "idle", connections: 1500},
	{listener: "admin", kind: "huge", connections: 1000, first: httpFields, again: true},
	{listener: "admin", kind: "unread", connections: 100, flood: pipelined("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), unread: true, again: true},
}

func text(s string) func() string { return func() string { return s } }

func pipelined(request string) func(int) string {
	batch := strings.Repeat(request, 1+8000/len(request))
	return func(int) string { return batch }
}

const httpPost = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n"

func httpHeader() string { return httpPost + "X: " }
func httpBody() string {
	return httpPost + "Content-Length: 64000\r\n\r\n{" + strings.Repeat(" ", 60_000)
}

// httpFields returns an incomplete header of 19,500 bytes with as many fields as
// possible.
func httpFields() string {
	var b strings.Builder
	b.WriteString(httpPost)
	for n := int64(0); b.Len() < 19_500; n++ {
		b.WriteString(strconv.FormatInt(n, 36) + ":\r\n")
	}
	return b.String()
}

func respPartial() string {
	return "*2\r\n$4\r\nECHO\r\n$16000\r\n" + strings.Repeat("x", 15_000)
}

func respTransaction() string {
	one := "*2\r\n$4\r\nECHO\r\n$4000\r\n" + strings.Repeat("x", 4000) + "\r\n"
	return "*1\r\n$5\r\nMULTI\r\n" + strings.Repeat(one, 4) + respPartial()
}

// The parts of HTTP/2 that the attacks on gRPC send.
const (
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	noWindow = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00"
	complete = "\x00\x00\x00\x00\x0d\x0a\x01d\x12\x08\x0a\x06\x0a\x01k\x12\x01v" // domain d, one entry
)

func frame(kind, flags byte, id int, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}) + payload
}

// fields encodes the header fields of a request with n more fields.
func fields(more int) string {
	var b strings.Builder
	add := func(name, value string) {
		b.WriteString("\x00" + string([]byte{byte(len(name))}) + name + string([]byte{byte(len(value))}) + value)
	}
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
		{":authority", "h"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		add(f[0], f[1])
	}
	for n := range more {
		add("x"+strconv.Itoa(n), "v")
	}
	return b.String()
}

// stream returns the ID of stream n of a connection.
func stream(n int) int { return 2*n + 1 }

func grpcPartial() string {
	return preface + frame(1, 4, 1, fields(0)) + frame(0, 0, 1, "\x00\x00\x00\x10\x00")[:10]
}

// heldStream sends most of a message of 60,000 bytes.
func heldStream(n int) string {
	message := "\x00\x00\x00\xea\x60" + strings.Repeat("x", 59_000)
	var b strings.Builder
	b.WriteString(frame(1, 4, stream(n), fields(0)))
	for rest := message; rest != ""; {
		piece := rest[:min(len(rest), 16_000)]
		rest = rest[len(piece):]
		b.WriteString(frame(0, 0, stream(n), piece))
	}
	return b.String()
}

// smallFrames sends most of a message in frames of one byte.
func smallFrames(n int) string {
	return frame(1, 4, stream(n), fields(0)) + frame(0, 0, stream(n), "\x00\x00\x00\xea\x60") + strings.Repeat(frame(0, 0, stream(n), "x"), 59_000)
}

func completeRequest(n int) string {
	return frame(1, 4, stream(n), fields(0)) + frame(0, 1, stream(n), complete)
}

// hugeFields sends a header of 14,000 bytes with many fields, and no message.
func hugeFields(n int) string { return frame(1, 4, stream(n), fields(390)) }

func resetStream(n int) string {
	return frame(1, 4, stream(n), fields(0)) + frame(3, 0, stream(n), "\x00\x00\x00\x08")
}

// attackers are the connections of an attack.
type attackers struct {
	open atomic.Int64
	all  sync.WaitGroup
}

func (a *attackers) wait() { a.all.Wait() }

// begin opens the connections of an attack until end is closed.
func (a *attack) begin(p *process, connections int, end chan struct{}) *attackers {
	run := &attackers{}
	ended := func() bool {
		select {
		case <-end:
			return true
		default:
			return false
		}
	}
	for range connections {
		run.all.Go(func() {
			for once := true; once || a.again && !ended(); once = false {
				conn, err := p.dial("h2")
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				run.open.Add(1)
				a.use(conn, end)
				run.open.Add(-1)
				_ = conn.Close()
			}
		})
	}
	return run
}

// use sends what a connection of the attack sends, until the server closes it.
func (a *attack) use(conn net.Conn, end chan struct{}) {
	closed := make(chan struct{})
	go func() { // ends the calls below
		<-end
		_ = conn.Close()
	}()
	if a.unread {
		close(closed)
		closed = nil
	} else {
		go func() { defer close(closed); _, _ = io.Copy(io.Discard, conn); _ = conn.Close() }()
	}
	if a.first != nil {
		if _, err := io.WriteString(conn, a.first()); err != nil {
			return
		}
	}
	for n := 0; a.flood != nil; n++ {
		if _, err := io.WriteString(conn, a.flood(n)); err != nil {
			return
		}
	}
	for a.drip != "" {
		time.Sleep(100 * time.Millisecond)
		if _, err := io.WriteString(conn, a.drip); err != nil {
			return
		}
	}
	select {
	case <-closed:
	case <-end:
	}
}

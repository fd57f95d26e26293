package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// goodClient is a client that opens a connection for every tenth request.
type goodClient struct {
	requests, failed int
	times            []time.Duration
}

// p99 returns the 99th percentile of the times in milliseconds.
func (g *goodClient) p99() float64 {
	if len(g.times) == 0 {
		return 0
	}
	slices.Sort(g.times)
	return g.times[len(g.times)*99/100].Seconds() * 1000
}

// runGoodClient sends requests until end is closed.
func runGoodClient(p *process, listener string, end chan struct{}) (g goodClient) {
	for {
		select {
		case <-end:
			return g
		default:
		}
		g.connect(p, listener)
	}
}

// connect sends ten requests on a new connection.
func (g *goodClient) connect(p *process, listener string) {
	began := time.Now()
	conn, err := p.dial(protocol(listener))
	if err != nil {
		g.count(began, err)
		time.Sleep(10 * time.Millisecond)
		return
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for n := range 10 {
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		err := ask(listener, conn, r, n)
		g.count(began, err)
		if err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
		began = time.Now()
	}
}

func (g *goodClient) count(began time.Time, err error) {
	g.requests++
	g.times = append(g.times, time.Since(began))
	if err != nil {
		g.failed++
	}
}

func protocol(listener string) string {
	if listener == "grpc" {
		return "h2"
	}
	return "http/1.1"
}

// ask sends request n of a connection and waits for its response.
func ask(listener string, conn net.Conn, r *bufio.Reader, n int) error {
	var request string
	switch listener {
	case "http", "admin":
		request = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	case "resp":
		request = "PING\r\n"
	case "grpc":
		if request = completeRequest(n); n == 0 {
			request = preface + request
		}
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	switch listener {
	case "grpc":
		return readStream(r, stream(n))
	case "resp":
		return mustRead(r, "+PONG")
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errResponse
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

var errResponse = errors.New("unexpected response")

func mustRead(r *bufio.Reader, want string) error {
	line, err := r.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != want {
		return errResponse
	}
	return err
}

// readStream reads frames until the end of a stream.
func readStream(r *bufio.Reader, id int) error {
	for {
		var head [9]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		if _, err := r.Discard(length); err != nil {
			return err
		}
		got := int(head[5])<<24 | int(head[6])<<16 | int(head[7])<<8 | int(head[8])
		switch kind, flags := head[3], head[4]; {
		case got == id && kind == 3, kind == 7:
			return errResponse
		case got == id && flags&1 != 0 && kind <= 1:
			return nil
		}
	}
}

package testserver

import (
	"bufio"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// Scripted starts a server that answers each Redis command with the bytes that reply
// returns, whatever they are. It calls reply concurrently for several connections. If
// the writer that it passes to reply is used, these bytes are sent first. Scripted
// returns the address. The server ends with the test.
func Scripted(t testing.TB, reply func(command []string, w io.Writer) string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{reply: reply}
	s.work.Go(func() { s.accept(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		s.closeAll()
		s.work.Wait()
	})
	return listener.Addr().String()
}

type scripted struct {
	reply func(command []string, w io.Writer) string
	work  sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
}

func (s *scripted) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		s.work.Go(func() { s.serve(conn) })
	}
}

func (s *scripted) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.conns, conn); i >= 0 {
			s.conns = slices.Delete(s.conns, i, i+1)
		}
	}()
	for reader := bufio.NewReader(conn); ; {
		command, err := decode(reader)
		if err != nil || command.Kind != '*' {
			return
		}
		if _, err := io.WriteString(conn, s.reply(command.Strings(), conn)); err != nil {
			return
		}
	}
}

func (s *scripted) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
}

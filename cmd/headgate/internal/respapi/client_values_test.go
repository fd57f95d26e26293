package respapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/mutation"
	"github.com/headgate/headgate/memstore"
)

// TestClientInput: a program passes what its client has chosen as a key. Every reply is a
// decision or an error of the program; a program must not treat the latter as allowed.
func TestClientInput(t *testing.T) {
	t.Parallel()
	throttle := func(key string) string { return request("CL.THROTTLE", key, "0", "1", "86400") }
	const allowed, denied, protocol = "*5\r\n:0\r\n", "*5\r\n:1\r\n", "-ERR Protocol error"
	for kind, requests := range map[string]map[string][]string{ // beginnings of the replies
		"long": {
			throttle(strings.Repeat("k", 1024)):                {allowed, denied},
			throttle(strings.Repeat("k", 1025)):                {"-"},
			request("HG.CHECK", strings.Repeat("p", 999), "k"): {"-NOPOLICY"},
			throttle(strings.Repeat("k", 17<<10)):              {protocol},
			strings.Repeat("x", 17<<10) + "\r\n":               {protocol},
		},
		"binary": {
			throttle("caf\xe9"):     {allowed, denied},
			throttle("\x00\r\n$1"):  {allowed, denied},
			throttle(""):            {allowed, denied},
			"\x00\xff\r\n":          {"-ERR unknown command"},
			"*1\r\n$-5\r\nPING\r\n": {protocol},
		},
		"many": {
			request(append([]string{"CL.THROTTLE"}, make([]string, 1000)...)...): {"-"},
			request(append([]string{"CL.THROTTLE"}, make([]string, 1100)...)...): {protocol},
			"*2000000000\r\n": {protocol},
			strings.Repeat("*1\r\n$4\r\nPING\r\n", 100): {"+PONG"},
		},
		"malformed": {
			request("CL.THROTTLE", "k", "-1", "1", "1"):                  {denied},
			request("CL.THROTTLE", "k", "9223372036854775808", "1", "1"): {"-"},
			request("CL.THROTTLE", "k"):                                  {"-"},
			request("HG.CHECK", "login", "k", "1e9"):                     {"-"},
			"*1\r\n:4\r\n":                                               {protocol},
			"$4\r\nPING\r\n":                                             {"-"},
			"GET / HTTP/1.1\r\nHost: h\r\n\r\n":                          {"-"},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			s := serve(t, transports[1], memstore.New(nil), Options{}, nil)
			for text, replies := range requests {
				for i, want := range replies {
					if got := exchange(t, s, text); !strings.HasPrefix(got, want) {
						t.Errorf("%.60q, request %d: got %.100q want %q…", text, i+1, got, want)
					}
				}
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		s := serve(t, transports[0], memstore.New(nil), Options{}, nil)
		conn, err := net.Dial("tcp", s.ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "*5\r\n$11\r\nCL.THR"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{allowed, denied} {
			if got := exchange(t, s, throttle("another")); !strings.HasPrefix(got, want) {
				t.Errorf("another client: got %q want %q…", got, want)
			}
		}
	})
}

// exchange sends text on a new connection, ends the output, and returns all that the
// server sends.
func exchange(t *testing.T, s *served, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetLinger(0) // a connection in TIME_WAIT would take a port
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, _ := io.ReadAll(conn)
	return string(got)
}

// TestMutatedRequests: each mutated request gets valid replies. A key that is over its
// limit stays over it.
func TestMutatedRequests(t *testing.T) {
	for _, d := range transports[:2] {
		t.Run(d.name, func(t *testing.T) {
			s := serve(t, d, memstore.New(nil), Options{}, nil)
			exchange(t, s, request("CL.THROTTLE", "attacker", "0", "1", "86400"))
			(&mutation.Attack{
				Share: 2,
				Sender: func() func(*rand.Rand) error {
					return func(rng *rand.Rand) error { return attack(s, rng) }
				},
				Polite: func() error {
					got := exchange(t, s, request("CL.THROTTLE", "polite", "100000000", "1000000000", "1"))
					if !strings.HasPrefix(got, "*5\r\n:0\r\n") {
						return fmt.Errorf("got %q", got)
					}
					return nil
				},
			}).Run(t)
		})
	}
}

// attack sends some mutated requests on one connection, and then a request for the
// exhausted key, unless the requests are not valid RESP.
func attack(s *served, rng *rand.Rand) error {
	conn, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	var text string
	valid := rng.IntN(2) == 0
	for range 1 + rng.IntN(4) {
		key, period := mutation.Value(rng, "alice"), mutation.Mutate(rng, "86400")
		if valid && rng.IntN(4) == 0 {
			key, period = "attacker", "86400" // another period would be another limit
		}
		switch command := []string{"CL.THROTTLE", "THROTTLE", "HG.CHECK", "HG.PEEK", "HG.HOLD", "HG.COMMIT", "MULTI", "EXEC", "HELLO", "CLIENT", "INFO"}[rng.IntN(11)]; command {
		case "HG.HOLD":
			text += request(command, "*", mutation.Mutate(rng, "30s"), "login", key)
		case "HG.COMMIT":
			text += request(command, mutation.Mutate(rng, token("login")), mutation.Mutate(rng, "1"))
		case "CL.THROTTLE", "THROTTLE":
			text += request(command, key, "0", "1", period)
		case "HG.CHECK", "HG.PEEK":
			text += request(command, mutation.Mutate(rng, "login"), key)
		default:
			text += request(command, mutation.Value(rng, "2", "INFO", "all"))
		}
	}
	if valid {
		text += request("DISCARD") + request("CL.THROTTLE", "attacker", "0", "1", "86400")
	} else {
		text = mutation.Mutate(rng, text)
	}
	go func() {
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	last, in := "", bufio.NewReader(conn)
	for {
		one, err := readReply(in, 0)
		var timeout net.Error
		switch {
		case err == nil:
			last = one
			continue
		case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, errNoReply):
			return fmt.Errorf("%.1000q: %w", text, err)
		}
		if strings.HasPrefix(last, "*5\r\n:0") && strings.HasSuffix(text, request("CL.THROTTLE", "attacker", "0", "1", "86400")) {
			return fmt.Errorf("%.1000q: the last reply is %q", text, last)
		}
		return nil
	}
}

var errNoReply = errors.New("not a reply of RESP")

// readReply reads one reply and returns its text.
func readReply(in *bufio.Reader, depth int) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	if depth > 8 || len(line) < 3 || !strings.HasSuffix(line, "\r\n") || !strings.ContainsRune("+-:$*%_#,~(=", rune(line[0])) {
		return "", fmt.Errorf("%w: %.60q", errNoReply, line)
	}
	n, _ := strconv.Atoi(line[1 : len(line)-2])
	text := line
	switch line[0] {
	case '$', '=':
		if n < 0 {
			return text, nil
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(in, body); err != nil {
			return "", err
		}
		return text + string(body), nil
	case '%':
		n *= 2
	case '*', '~':
	default:
		return text, nil
	}
	for range n {
		inner, err := readReply(in, depth+1)
		if err != nil {
			return "", err
		}
		text += inner
	}
	return text, nil
}

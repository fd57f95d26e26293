package redisstore_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// fakeServer is a server whose replies can be damaged. It is a standalone server, the
// only node of a cluster, or a sentinel and the primary that it monitors.
type fakeServer struct {
	mode    string
	addr    string
	random  *rand.Rand    // not nil to mutate random replies
	mutated *atomic.Int64 // counts them
	clock   atomic.Int64  // instant in µs of the replies to scripts

	mu      sync.Mutex
	command string // whose replies are replaced
	text    string
	more    func(io.Writer)
}

func (f *fakeServer) start(t *testing.T) {
	t.Helper()
	f.clock.CompareAndSwap(0, 1e15)
	f.addr = testserver.Scripted(t, f.reply)
}

func (f *fakeServer) url() string {
	switch f.mode {
	case "cluster":
		return "redis+cluster://" + f.addr
	case "sentinel":
		return "redis+sentinel://" + f.addr + "/mymaster"
	}
	return "redis://" + f.addr
}

// open opens a store, which ends with the test.
func (f *fakeServer) open(t *testing.T, timeout time.Duration) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(f.url(), &redisstore.Options{Timeout: timeout, DenialCacheTTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// damage replaces the replies to a command. more writes further bytes; it may be nil.
func (f *fakeServer) damage(command, text string, more func(io.Writer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.command, f.text, f.more = command, text, more
}

func (f *fakeServer) reply(args []string, w io.Writer) string {
	f.mu.Lock()
	command, text, more := f.command, f.text, f.more
	f.mu.Unlock()
	switch {
	case command != "" && args[0] == command:
		if _, err := io.WriteString(w, text); err == nil && more != nil {
			more(w)
		}
		return ""
	case f.random != nil:
		return f.mutate(args[0], f.correct(args))
	}
	return f.correct(args)
}

// confirmations are the replies to the SUBSCRIBE of the client.
var confirmations = strings.Repeat(">3\r\n+subscribe\r\n+x\r\n:1\r\n", 6)

// correct returns a correct reply.
func (f *fakeServer) correct(args []string) string {
	host, port, _ := net.SplitHostPort(f.addr)
	address := fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
	switch args[0] {
	case "HELLO":
		return "%4\r\n+server\r\n+redis\r\n+version\r\n+7.2.0\r\n+proto\r\n:3\r\n+mode\r\n+" + strings.Replace(f.mode, "sentinel", "standalone", 1) + "\r\n"
	case "EVALSHA":
		return scriptReply(float64(f.clock.Load()), absentState)
	case "CLUSTER":
		return "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n+" + host + "\r\n:" + port + "\r\n+id\r\n"
	case "SENTINEL":
		if args[1] == "GET-MASTER-ADDR-BY-NAME" {
			return address
		}
		return "*1\r\n%2\r\n+ip\r\n+" + host + "\r\n+port\r\n+" + port + "\r\n"
	case "ROLE":
		return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
	case "SUBSCRIBE":
		return confirmations + ">3\r\n+message\r\n+x\r\n+text\r\n"
	case "UNSUBSCRIBE":
		return strings.ReplaceAll(confirmations, "subscribe", "unsubscribe")
	case "PING":
		return "+PONG\r\n"
	case "TIME":
		return "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"
	default:
		return "+OK\r\n"
	}
}

// fragments are inserted by mutations.
var fragments = []string{
	"+OK\r\n", "*1\r\n", "*-1\r\n", "%2\r\n", "$-1\r\n", "$5\r\n", ">3\r\n+subscribe\r\n+x\r\n:1\r\n", "|1\r\n+a\r\n+b\r\n", "-MOVED\r\n",
	"-MOVED 1 127.0.0.1:1\r\n", "-ASK 1\r\n", "999999999", "-", "\r\n", "?", "+QUEUED\r\n", "+PONG\r\n", "-NOSCRIPT x\r\n", "-NOPERM 'ping'\r\n", "*0\r\n", ".\r\n",
	">3\r\n+message\r\n++switch-master\r\n+mymaster\r\n", ">3\r\n+message\r\n++reboot\r\n+master mymaster\r\n", "_\r\n", "$80000000000\r\n", "*131072\r\n",
}

// mutate mutates one of two replies to scripts, and fewer others, so that most
// connections are established.
func (f *fakeServer) mutate(command, text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.random
	if command == "EVALSHA" && r.IntN(2) == 0 || command != "EVALSHA" && r.IntN(8) != 0 {
		return text
	}
	f.mutated.Add(1)
	b := []byte(text)
	for range 1 + r.IntN(3) {
		i := r.IntN(len(b) + 1)
		switch r.IntN(6) {
		case 0: // change a byte
			if i < len(b) {
				b[i] ^= 1 << r.IntN(8)
			}
		case 1: // delete bytes
			b = append(b[:i:i], b[min(len(b), i+1+r.IntN(8)):]...)
		case 2: // repeat a part
			b = append(b, b[i:]...)
		case 3: // change a digit or a type
			if i < len(b) {
				const alphabet = "0123456789-$*+:%~>|_#(,!="
				b[i] = alphabet[r.IntN(len(alphabet))]
			}
		default: // insert a fragment
			b = append(b[:i:i], append([]byte(fragments[r.IntN(len(fragments))]), b[i:]...)...)
		}
	}
	return string(b)
}

// absentState is the state of a key that does not exist, in a reply of the script.
var absentState = strings.Repeat("\x00", 25)

// scriptReply returns a reply of the script with an instant in µs and a state.
func scriptReply(instant float64, state string) string {
	text := string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(instant))) + state
	return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
}

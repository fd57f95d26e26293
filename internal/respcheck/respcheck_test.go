package respcheck

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// command encodes a request.
func command(words ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	return text
}

// channels are the channels to which rueidis subscribes on a sentinel.
var channels = []string{"+sentinel", "+slave", "-sdown", "+sdown", "+switch-master", "+reboot"}

var (
	get         = command("EVALSHA", "0123", "1", "key", "a\r\nb")
	subscribe   = command(append([]string{"SUBSCRIBE"}, channels...)...)
	unsubscribe = command(append([]string{"UNSUBSCRIBE"}, channels...)...) + command("PING")
	primaryOf   = command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
	hello3      = command("HELLO", "3")
	helloOK     = "%1\r\n+proto\r\n:3\r\n"
)

func confirm(kind string, n int) string {
	return strings.Repeat(">3\r\n+"+kind+"\r\n+x\r\n:1\r\n", n)
}

func event(channel, text string) string {
	return fmt.Sprintf(">3\r\n+message\r\n+%s\r\n$%d\r\n%s\r\n", channel, len(text), text)
}

// tests are requests, the replies to them, and the error of the check.
var tests = map[string]struct {
	requests, replies string
	want              error
}{
	"string":                          {get, "$3\r\nabc\r\n", nil},
	"string with line ends":           {get, "$4\r\n\r\n\r\n\r\n", nil},
	"empty string":                    {get, "$0\r\n\r\n", nil},
	"null of RESP2":                   {get + get, "$-1\r\n*-1\r\n", nil},
	"scalars":                         {strings.Repeat(get, 8), "+OK\r\n-ERR x\r\n:-12\r\n_\r\n#t\r\n,1.5\r\n(12345678901234567890\r\n=5\r\ntxt:a\r\n", nil},
	"blob error":                      {get, "!5\r\nERR x\r\n", nil},
	"nested":                          {get, "*2\r\n%1\r\n+a\r\n~1\r\n:1\r\n*0\r\n", nil},
	"attribute":                       {get, "|1\r\n+a\r\n*1\r\n:1\r\n+OK\r\n", nil},
	"empty attribute":                 {get, "|0\r\n+OK\r\n", nil},
	"attribute of an element":         {get, "*1\r\n|1\r\n+a\r\n:1\r\n+OK\r\n", nil},
	"attribute without a value":       {get, "|1\r\n+a\r\n:1\r\n", nil},
	"redirections":                    {get + get, "-MOVED 1 127.0.0.1:7001\r\n-ASK 2 :7002\r\n", nil},
	"push message":                    {"", ">2\r\n+invalidate\r\n_\r\n", nil},
	"short push messages":             {"", ">0\r\n>1\r\n+subscribe\r\n", nil},
	"two replies":                     {get, "+OK\r\n+OK\r\n", errUnsolicited},
	"no request":                      {"", "+OK\r\n", errUnsolicited},
	"half a request":                  {get[:len(get)-1], "+OK\r\n", errUnsolicited},
	"not Redis":                       {get, "HTTP/1.1 200 OK\r\n", ErrNotRedis},
	"unknown type later":              {get + get, "+OK\r\nHTTP", errType},
	"chunks":                          {get, "$?\r\n", errNumber},
	"negative string":                 {get, "$-2\r\n", errLength},
	"null set":                        {get, "~-1\r\n", errLength},
	"two signs":                       {get, ":--1\r\n", errNumber},
	"sign only":                       {get, ":-\r\n", errNumber},
	"digits after the line":           {get, ":1\r2\n", errNumber},
	"20 digits":                       {get, ":12345678901234567890\r\n", errNumber},
	"overflowing length":              {get, "$9999999999999999999\r\n", errLength},
	"too large string":                {get, "$16777217\r\n", errTooLarge},
	"too large with its length":       {get, "$16777210\r\n", errTooLarge},
	"strings too large together":      {get, "*2\r\n$9000000\r\n" + strings.Repeat("a", 9000000) + "\r\n$9000000\r\n", errTooLarge},
	"too large array":                 {get, "*131073\r\n", errTooLarge},
	"too many elements":               {get, strings.Repeat("*131072\r\n", 5), errTooLarge},
	"too deep":                        {get, strings.Repeat("*1\r\n", maxDepth+1), errTooDeep},
	"long line":                       {get, "+" + strings.Repeat("a", maxLine+1), errLine},
	"line feed in a line":             {get, "+a\nb\r\n", errLine},
	"carriage return in a line":       {get, "+a\rb\r\n", errLine},
	"string without a line end":       {get, "$1\r\nabc", errTerminator},
	"empty boolean":                   {get, "#\r\n", errBoolean},
	"boolean x":                       {get, "#x\r\n", errBoolean},
	"boolean of two letters":          {get, "#tt\r\n", errBoolean},
	"null with a text":                {get, "_a\r\n", errBoolean},
	"nested push message":             {get, "*1\r\n>1\r\n+a\r\n", errNestedPush},
	"redirection without an address":  {get, "-MOVED 1\r\n", errRedirection},
	"redirection after ERR":           {get, "-ERR ASK 1\r\n", errRedirection},
	"redirection as a blob":           {get, "!5\r\nMOVED\r\n", errRedirection},
	"redirect without an address":     {get, "-REDIRECT\r\n", errRedirection},
	"confirmation without a request":  {"", confirm("subscribe", 1), errMismatch},
	"confirmation of another request": {get, confirm("ssubscribe", 1), errMismatch},
	"role":                            {command("ROLE"), "*1\r\n+master\r\n", nil},
	"role in lower case":              {command("role"), "*0\r\n", errMismatch},
	"role error":                      {command("ROLE"), "-ERR x\r\n", nil},
	"empty role":                      {command("ROLE"), "*0\r\n", errMismatch},
	"empty role later":                {get + command("ROLE"), "*0\r\n*0\r\n", errMismatch},
	"primary":                         {primaryOf + get, "*2\r\n+a\r\n+b\r\n+OK\r\n", nil},
	"no primary":                      {primaryOf, "*-1\r\n", nil},
	"half a primary":                  {primaryOf, "*1\r\n+a\r\n", errMismatch},
	"subscription":                    {hello3 + subscribe + get, helloOK + confirm("subscribe", 6) + event("+slave", "x") + "+OK\r\n", nil},
	"failed subscription":             {hello3 + subscribe + get, helloOK + "-NOPERM x\r\n+OK\r\n", nil},
	"too many confirmations":          {hello3 + subscribe, helloOK + confirm("subscribe", 7), errMismatch},
	"subscription queued":             {hello3 + subscribe, helloOK + "+QUEUED\r\n", errMismatch},
	"unsubscription":                  {hello3 + unsubscribe + get, helloOK + confirm("unsubscribe", 6) + "+PONG\r\n+OK\r\n", nil},
	"unsubscription of nothing":       {hello3 + unsubscribe + get, helloOK + "+PONG\r\n+OK\r\n", nil},
	"failed unsubscription":           {hello3 + unsubscribe + get, helloOK + "-NOPERM x\r\n+PONG\r\n+OK\r\n", nil},
	"failed ping":                     {hello3 + unsubscribe + get, helloOK + confirm("unsubscribe", 6) + "-NOPERM no 'ping' command\r\n+OK\r\n", nil},
	"unsubscription queued":           {hello3 + unsubscribe, helloOK + "+QUEUED\r\n", errMismatch},
	"no pong after an error":          {hello3 + unsubscribe, helloOK + "-NOPERM x\r\n+OK\r\n", errMismatch},
	"pong before the ping":            {hello3 + unsubscribe[:len(unsubscribe)-1], helloOK + "+PONG\r\n", errMismatch},
	"failover":                        {hello3, helloOK + event("+switch-master", "main 10.0.0.1 1 10.0.0.2 2"), nil},
	"failover without an address":     {hello3, helloOK + event("+switch-master", "main 10.0.0.1 1 10.0.0.2"), errEvent},
	"reboot":                          {hello3, helloOK + event("+reboot", "master main 10.0.0.1 1"), nil},
	"reboot without an address":       {hello3, helloOK + event("+reboot", "master main 10.0.0.1"), errEvent},
	"new sentinel":                    {hello3, helloOK + event("+sentinel", "sentinel id 10.0.0.1 1 @ main 10.0.0.2 2"), nil},
	"new sentinel without an address": {hello3, helloOK + event("+sentinel", "sentinel"), errEvent},
	"event of another type":           {hello3, helloOK + ">3\r\n+message\r\n++reboot\r\n*0\r\n", errEvent},
	"RESP2 subscription": {
		command("HELLO", "2") + unsubscribe + subscribe,
		"*2\r\n+proto\r\n:2\r\n" + strings.ReplaceAll(confirm("unsubscribe", 6)+"+PONG\r\n"+confirm("subscribe", 6), ">", "*"), errHello2,
	},
}

// errHello2 marks the test in which the replies to HELLO arrive before the
// subscription, as they do in reality.
var errHello2 = errors.New("HELLO first")

// readAll returns what arrives through a checked connection until an error.
func readAll(t *testing.T, conn *Conn, server net.Conn, replies string, chunk int) (string, error) {
	t.Helper()
	go func() {
		defer server.Close()
		for rest := replies; rest != ""; {
			n := min(chunk, len(rest))
			if _, err := io.WriteString(server, rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	var all strings.Builder
	_, err := io.Copy(&all, conn)
	return all.String(), err
}

// discard is the client's side of a connection whose server reads everything.
type discard struct{ net.Conn }

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Only the replies before the first violation arrive, however requests and replies are
// split.
func TestConn(t *testing.T) {
	t.Parallel()
	for name, test := range tests {
		for _, chunk := range []int{1, 7, 1 << 20} {
			if chunk < 1<<20 && len(test.replies) > 1<<20 {
				continue
			}
			client, server := net.Pipe()
			conn := New(discard{client}, DefaultLimits)
			replies, want := test.replies, test.want
			requests := test.requests
			if errors.Is(want, errHello2) {
				first := strings.Index(requests, "*7")
				write(t, conn, requests[:first], chunk)
				n := strings.Index(replies, "*3")
				if _, err := conn.received([]byte(replies[:n])); err != nil {
					t.Fatal(err)
				}
				requests, replies, want = requests[first:], replies[n:], nil
			}
			write(t, conn, requests, chunk)
			got, err := readAll(t, conn, server, replies, chunk)
			if !errors.Is(err, want) {
				t.Errorf("%s, chunks of %d: got error %v want %v", name, chunk, err, want)
			}
			if want == nil && got != replies || !strings.HasPrefix(replies, got) || want != nil && got == replies {
				t.Errorf("%s, chunks of %d: got %.200q", name, chunk, got)
			}
			if want != nil && client.SetDeadline(time.Time{}) == nil {
				t.Errorf("%s, chunks of %d: the connection is open", name, chunk)
			}
			_ = conn.Close()
		}
	}
}

func write(t *testing.T, conn *Conn, requests string, chunk int) {
	t.Helper()
	for rest := requests; rest != ""; {
		n := min(chunk, len(rest))
		if _, err := io.WriteString(conn, rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
}

// A connection without a matcher checks only syntax and size.
func TestBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replies string
		want    error
	}{
		"replies without requests": {"+OK\r\n*0\r\n" + confirm("subscribe", 3), nil},
		"negative":                 {"*-5\r\n", errLength},
		"large":                    {"$101\r\n", errTooLarge},
		"many elements":            {"*11\r\n", errTooLarge},
	} {
		client, server := net.Pipe()
		conn := Bounded(discard{client}, Limits{Bytes: 100, Elements: 10})
		write(t, conn, "PING\r\n", 4)
		if _, err := readAll(t, conn, server, test.replies, 1<<20); !errors.Is(err, test.want) {
			t.Errorf("%s: got error %v want %v", name, err, test.want)
		}
	}
}

// A request that is no array of strings is refused: its replies could not be counted.
func TestUnsupportedRequest(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"PING\r\n", "*0\r\n", "*1\r\n:1\r\n", "*x\r\n", "*1\r\n$x\r\n", strings.Repeat(subscribe, 40)} {
		client, server := net.Pipe()
		conn := New(discard{client}, DefaultLimits)
		if _, err := io.WriteString(conn, request); !errors.Is(err, errRequest) {
			t.Errorf("%.20q: got error %v want %v", request, err, errRequest)
		}
		_, _ = client.Close(), server.Close()
	}
}

// Checking allocates nothing.
func TestAllocations(t *testing.T) {
	conn := New(nil, DefaultLimits)
	request, reply := []byte(get), []byte("$33\r\n"+strings.Repeat("a", 33)+"\r\n")
	if n := testing.AllocsPerRun(100, func() { conn.exchange(t, request, reply) }); n != 0 {
		t.Errorf("got %v allocations want 0", n)
	}
}

func (c *Conn) exchange(t testing.TB, request, reply []byte) {
	if err := c.sent(request); err != nil {
		t.Fatal(err)
	}
	if n, err := c.received(reply); err != nil || n != len(reply) {
		t.Fatal(n, err)
	}
}

// A script call and its reply.
func BenchmarkExchange(b *testing.B) {
	conn := New(nil, DefaultLimits)
	request := []byte(command("EVALSHA", strings.Repeat("a", 40), "1", strings.Repeat("k", 50), strings.Repeat("h", 80), strings.Repeat("r", 17)))
	reply := []byte("$33\r\n" + strings.Repeat("a", 33) + "\r\n")
	b.ReportAllocs()
	for b.Loop() {
		conn.exchange(b, request, reply)
	}
}

// A stream of any bytes is accepted or refused, in the same way however it is split,
// and what is accepted consists of the replies to the requests.
func FuzzReplies(f *testing.F) {
	for _, test := range tests {
		if len(test.replies) < 1<<16 {
			f.Add([]byte(test.requests), []byte(test.replies), uint8(3))
		}
	}
	f.Fuzz(func(t *testing.T, requests, replies []byte, chunk uint8) {
		whole, split := New(nil, DefaultLimits), New(nil, DefaultLimits)
		if whole.sent(requests) != nil {
			return
		}
		n, err := whole.received(replies)
		_ = split.sent(requests)
		total, offset, splitErr := 0, 0, error(nil)
		for size := int(chunk) + 1; offset < len(replies) && splitErr == nil; offset += size {
			var m int
			if m, splitErr = split.received(replies[offset:min(offset+size, len(replies))]); m > 0 {
				total = offset + m
			}
		}
		if n != total || (err == nil) != (splitErr == nil) {
			t.Errorf("%d bytes valid, error %v; in chunks %d bytes, error %v", n, err, total, splitErr)
		}
		if whole.matcher.answered > whole.matcher.sent {
			t.Errorf("%d replies to %d requests", whole.matcher.answered, whole.matcher.sent)
		}
	})
}

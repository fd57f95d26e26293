package respapi

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestInlineRequests(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"PING\r\n", []string{"PING"}},
		{"PING\n", []string{"PING"}},
		{"  CL.THROTTLE\tk  15 30 60  \r\n", []string{"CL.THROTTLE", "k", "15", "30", "60"}},
		{`a "b c" d` + "\r\n", []string{"a", "b c", "d"}},
		{`"" ''` + "\r\n", []string{"", ""}},
		{`"\n\r\t\b\a\\\"\x41\xfF\q" '\'\n'` + "\r\n", []string{"\n\r\t\b\a\\\"A\xffq", `'\n`}},
		{`a"b"` + "\r\n", []string{"ab"}},
		{`"\x4"` + "\r\n", []string{"x4"}},
		{"   \r\n", nil},
	} {
		var r reader
		in := []byte(tt.line + "rest")
		n, err := r.next(in, bounds{1000, 100, 1000})
		var got []string
		for _, s := range r.args {
			got = append(got, string(in[s.start:s.end]))
		}
		if err != nil || n != len(tt.line) || !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, %d bytes, %v; want %q, %d bytes", tt.line, got, n, err, tt.want, len(tt.line))
		}
	}
}

var small = bounds{request: 64, args: 4, bulk: 16}

// TestProtocolErrors: protocol errors are detected as soon as their bytes arrive, and
// bounds before anything is buffered.
func TestProtocolErrors(t *testing.T) {
	for _, tt := range []struct {
		input string
		want  protocolError
	}{
		{"*5\r\n", errArrayLength},
		{"*1000000000\r\n", errArrayLength},
		{"*99999999999999999999", errArrayLength},
		{"*-99999999999", errArrayLength},
		{"*x\r\n", errArrayLength},
		{"*\r\n", errArrayLength},
		{"*-\r\n", errArrayLength},
		{"*+1\r\n", errArrayLength},
		{"* 1\r\n", errArrayLength},
		{"*1 \r\n", errArrayLength},
		{"*1\n", errArrayLength},
		{"*1\r\r", errArrayLength},
		{"*1\r\n:1\r\n", "expected '$', got ':'"},
		{"*1\r\n*1\r\n", "expected '$', got '*'"},
		{"*1\r\n+PING\r\n", "expected '$', got '+'"},
		{"*1\r\n\x00", "expected '$', got '?'"},
		{"*1\r\n\r\n", "expected '$', got '?'"},
		{"*1\r\n$17\r\n", errBulkLength},
		{"*1\r\n$-1\r\n", errBulkLength},
		{"*1\r\n$9999999999", errBulkLength},
		{"*1\r\n$-9223372036854775808\r\n", errBulkLength},
		{"*1\r\n$\r\n", errBulkLength},
		{"*1\r\n$x", errBulkLength},
		{"*1\r\n$4\r\nPINGS", errBulkEnd},
		{"*1\r\n$4\r\nPING\n\n", errBulkEnd},
		{"*1\r\n$4\r\nPING\r\r", errBulkEnd},
		{"*4\r\n" + strings.Repeat("$16\r\n0123456789abcdef\r\n", 2) + "$16\r\n", errTooBig},
		{"*3\r\n" + strings.Repeat("$16\r\n0123456789abcdef\r\n", 2) + "$9\r\n", errTooBig}, // 65 bytes, with its text
		{`a "b` + "\r\n", errInlineQuotes},
		{`a "b"c` + "\r\n", errInlineQuotes},
		{`a 'b` + "\n", errInlineQuotes},
		{`a "b\` + "\n", errInlineQuotes},
		{strings.Repeat("a ", 32), errInlineLength},
		{strings.Repeat("a", 17) + "\n", errBulkLength},
		{"a a a a a\n", errArrayLength},
	} {
		for cut := range len(tt.input) + 1 { // the input in one part, or split anywhere
			var r reader
			n, err := r.next([]byte(tt.input[:cut]), small)
			if n == 0 && err == nil {
				n, err = r.next([]byte(tt.input), small)
			}
			if n != 0 || !errors.Is(err, tt.want) {
				t.Errorf("%q, cut at %d: got %d, %v, want %v", tt.input, cut, n, err, tt.want)
			}
		}
	}
}

// TestMaximumSizesAreAccepted tests requests at the bounds.
func TestMaximumSizesAreAccepted(t *testing.T) {
	for _, input := range []string{
		"*4\r\n" + strings.Repeat("$1\r\na\r\n", 4),
		"*1\r\n$16\r\n0123456789abcdef\r\n",
		"*2\r\n$16\r\n0123456789abcdef\r\n$16\r\n0123456789abcdef\r\n",
		"*3\r\n" + strings.Repeat("$16\r\n0123456789abcdef\r\n", 2) + "$8\r\n01234567\r\n", // 64 bytes
		strings.Repeat("a", 16) + "\n",
		"a a a a" + strings.Repeat(" ", 56) + "\n",
	} {
		var r reader
		if n, err := r.next([]byte(input), small); n != len(input) || err != nil {
			t.Errorf("%q: got %d, %v, want %d", input, n, err, len(input))
		}
	}
}

// TestRepliesAreBounded: short requests with long replies are run only while there is
// room for replies.
func TestRepliesAreBounded(t *testing.T) {
	c := New(mustEngine(t, newFrozen(t), nil), nil).newClient(t)
	one := len(c.do("COMMAND"))
	in := []byte(strings.Repeat("COMMAND\n", 2000))
	if used := c.w.serve(c.s, in); used == 0 || used == len(in) || len(c.w.out) > maxReplyBatch+one {
		t.Errorf("%d bytes of %d were run at once, with %d bytes of replies", used, len(in), len(c.w.out))
	}
}

// session1 has requests of every form.
var session1 = request("PING") + request("CL.THROTTLE", "k", "15", "30", "60") + "PING \"a b\"\r\n" + "\r\n" + "*0\r\n" + "ECHO\tx\n" +
	request("HG.CHECK", "api", "key\r\nkey", "2") + request("CL.THROTTLE", "k", "15", "30", "60", "x") + request("FOO", "") +
	request("HELLO", "3") + request("HG.PEEK", "api", "") + request("ECHO", strings.Repeat("long ", 500)) + request("COMMAND", "COUNT")

// TestInputSplitAnywhere: the replies do not depend on how the input is split.
func TestInputSplitAnywhere(t *testing.T) {
	t.Parallel()
	for _, networked := range []bool{false, true} {
		h := New(mustEngine(t, newFrozen(t), policies), &Options{Networked: networked})
		want := h.replies(t, session1)
		for cut := range len(session1) {
			if strings.HasPrefix(session1[cut:], "long long ") && cut%100 != 0 {
				continue // in the middle of a long text every place is like any other
			}
			h := New(mustEngine(t, newFrozen(t), policies), &Options{Networked: networked})
			if got := h.replies(t, session1[:cut], session1[cut:]); got != want {
				t.Fatalf("networked %v, cut at %d: got %q, want %q", networked, cut, got, want)
			}
		}
		h = New(mustEngine(t, newFrozen(t), policies), &Options{Networked: networked})
		if got := h.replies(t, strings.Split(session1, "")...); got != want {
			t.Fatalf("networked %v, byte by byte: got %q, want %q", networked, got, want)
		}
	}
}

// replies returns the replies of a connection whose input arrives in parts.
func (h *Handler) replies(t testing.TB, parts ...string) string {
	w, s := h.newWorker(t.Context()), h.newSession("", "")
	var in, out []byte
	for _, part := range parts {
		in = append(in, part...)
		for !s.closing {
			n := w.serve(s, in)
			out = append(out, w.out...)
			w.out = w.out[:0]
			in = bytes.Clone(in[n:])
			if n == 0 {
				break
			}
		}
	}
	return string(out)
}

// FuzzRequests compares the parser with a simple one, and with itself for the same
// input split in two.
func FuzzRequests(f *testing.F) {
	for i := range 20 {
		f.Add([]byte(session1), i*40)
	}
	for _, seed := range []string{"*3\r\n$3\r\nSET\r\n$-1\r\n", "*1\r\n$0\r\n\r\n*-1\r\n", "*2\r\n*1\r\n$1\r\na\r\n", "\"\\x\"\r\n", "*9999999999\r\n"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, input []byte, cut int) {
		b := bounds{request: 512, args: 8, bulk: 100}
		want, wantErr := readAll(t, b, bytes.Clone(input))
		cut = min(max(cut, 0), len(input))
		got, err := readAll(t, b, bytes.Clone(input[:cut]), bytes.Clone(input[cut:]))
		if !slices.Equal(got, want) || (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %q, %v; cut at %d: %q, %v", input, want, wantErr, cut, got, err)
		}
		plain, plainOK := plainRead(input, b)
		if plainOK && (!slices.Equal(plain, want) || wantErr != nil) {
			t.Fatalf("%q: got %q, %v, a plain reader finds %q", input, want, wantErr, plain)
		}
	})
}

// readAll parses all requests and returns each as a string.
func readAll(t *testing.T, b bounds, parts ...[]byte) (all []string, err error) {
	var r reader
	var in []byte
	for _, part := range parts {
		in = append(in, part...)
		for {
			n, err := r.next(in, b)
			if err != nil {
				return all, err
			}
			if n == 0 {
				if len(in) >= b.request {
					t.Fatalf("%d bytes of a request are kept, which may have %d", len(in), b.request)
				}
				break
			}
			if n > b.request || len(r.args) > b.args {
				t.Fatalf("a request of %d bytes and %d arguments was read", n, len(r.args))
			}
			var args []string
			for _, s := range r.args {
				if int(s.end-s.start) > b.bulk {
					t.Fatalf("an argument of %d bytes was read", s.end-s.start)
				}
				args = append(args, string(in[s.start:s.end]))
			}
			all = append(all, fmt.Sprintf("%q", args))
			in = in[n:]
		}
	}
	return all, nil
}

// plainRead parses arrays of bulk strings by splitting the text. It stops at anything
// else.
func plainRead(input []byte, b bounds) (all []string, ok bool) {
	text := string(input)
	for text != "" {
		var count int
		if n, _ := fmt.Sscanf(text, "*%d\r\n", &count); n != 1 || count < 1 || count > b.args {
			return nil, false
		}
		size := len(text)
		head := fmt.Sprintf("*%d\r\n", count)
		if !strings.HasPrefix(text, head) {
			return nil, false
		}
		text = text[len(head):]
		var args []string
		for range count {
			var length int
			if n, _ := fmt.Sscanf(text, "$%d\r\n", &length); n != 1 || length < 0 || length > b.bulk {
				return nil, false
			}
			head := fmt.Sprintf("$%d\r\n", length)
			if !strings.HasPrefix(text, head) || len(text) < len(head)+length+2 || text[len(head)+length:len(head)+length+2] != "\r\n" {
				return nil, false
			}
			args = append(args, text[len(head):len(head)+length])
			text = text[len(head)+length+2:]
		}
		if size-len(text) > b.request {
			return nil, false
		}
		all = append(all, fmt.Sprintf("%q", args))
	}
	return all, true
}

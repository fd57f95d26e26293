package respapi

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// FuzzCommands sends arbitrary input: every reply must be complete and well-formed, no
// request may panic, and concurrent decisions must give the same replies as single ones.
func FuzzCommands(f *testing.F) {
	f.Add([]byte(session1))
	for _, line := range []string{
		"HELLO 3 AUTH default x SETNAME y", "CLIENT LIST", "CLIENT SETINFO lib-name x", "HELLO 3\r\nCOMMAND DOCS ping hg.check", "COMMAND INFO x", "INFO", "AUTH a b",
		"CL.THROTTLE k 4 1 1 5\r\nCL.THROTTLE k 4 1 1 -2\r\nCL.THROTTLE k -1 1 1\r\nCL.THROTTLE k x y z", "THROTTLE k 4 1 1\r\nTHROTTLE k 0 0 0",
		"HG.CHECK login k\r\nHG.RESET login k\r\nHG.REFUND login k 9223372036854775807\r\nHG.CHECK nothing k", "SELECT 1\r\nRESET\r\nQUIT\r\nPING",
		"HG.CHECK api k 1 login k 2\r\nHG.PEEK api k 1 login k\r\nHG.REFUND api a 1 api b 1\r\nHELLO 3\r\nHG.CHECK login k 9 api k 1",
		"HG.HOLD a 30s api k 5\r\nHG.HOLD a 30s api k 5\r\nHG.HOLD a 30s api k 6\r\nHG.HOLD b 1h login k 1 api k 2\r\nHG.HOLD c 1 api k\r\nHG.HOLD d 9h queue k",
		"HG.COMMIT " + token("login") + " 1\r\nHG.CANCEL " + token("login") + "\r\nHG.EXTEND 1h " + token("api") + " " + token("gone") + "\r\nHG.EXTEND 1h x",
		"HG.DEBIT login k 9\r\nHG.UPTO api k 9 login k 9\r\nHG.UPTO api k\r\nHELLO 3\r\nHG.DEBIT api k 1 login k 9007199254740992",
		"CONFIG GET save appendonly x", "CLIENT TRACKING on", "POST /", "MULTI\r\nCL.THROTTLE 'k\\'' 1 1 1\r\nHG.CHECK login k\r\nCL.THROTTLE k\r\nPING\r\nEXEC\r\nMULTI\r\nINFO\r\nEXEC\r\nMULTI\r\nDISCARD", "COMMAND GETKEYS hg.check a b", "CL.THROTTLE \"\\xff\\r\\n\" 1 1 1 0",
	} {
		f.Add([]byte(line + "\r\n"))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		log := &strings.Builder{}
		one := New(mustEngine(t, newFrozen(t), policies), &Options{Log: textLog(log)})
		many := New(mustEngine(t, newFrozen(t), policies), &Options{Networked: true, Log: textLog(log)})
		one.now, many.now = start.Time, start.Time
		got := one.replies(t, string(input))
		if other := many.replies(t, string(input)); withoutTokens(other) != withoutTokens(got) {
			t.Fatalf("%q:\n got %q\nwant %q", input, other, got)
		}
		if log.Len() > 0 {
			t.Fatalf("%q: %s", input, log)
		}
		for rest := []byte(got); len(rest) > 0; {
			var err error
			if rest, err = skipReply(rest, 0); err != nil {
				t.Fatalf("%q: in %q at %q: %v", input, got, rest, err)
			}
		}
	})
}

// token returns the token of a hold that was never opened.
func token(policy string) string {
	h := engine.ClientHold{ID: headgate.HoldID{1}, Expires: start, Checks: []engine.Check{{Policy: policy, Key: "k", Cost: 1}}}
	return h.Token()
}

var tokens = regexp.MustCompile(`A[\w-]{20,}`)

// withoutTokens removes the tokens from replies: those with generated ids differ.
func withoutTokens(replies string) string { return tokens.ReplaceAllString(replies, "") }

var errReply = errors.New("no reply")

// skipReply parses one reply and returns the input after it.
func skipReply(in []byte, depth int) ([]byte, error) {
	line, rest, ok := bytes.Cut(in, []byte("\r\n"))
	if !ok || len(line) == 0 || depth > 5 {
		return in, errReply
	}
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	switch kind := line[0]; kind {
	case '+', '-':
		return rest, nil
	case ':':
		return rest, err
	case '_':
		return rest, nil
	case '#':
		if b := string(line); b != "#t" && b != "#f" {
			return in, errReply
		}
		return rest, nil
	case '$', '=':
		if n == -1 && err == nil {
			return rest, nil
		}
		if err != nil || n < 0 || len(rest) < int(n)+2 {
			return in, errReply
		}
		if string(rest[n:n+2]) != "\r\n" {
			return in, errReply
		}
		return rest[n+2:], nil
	case '*', '%', '~':
		if err != nil || n < -1 {
			return in, errReply
		}
		if kind == '%' {
			n *= 2
		}
		for range n {
			if rest, err = skipReply(rest, depth+1); err != nil {
				return rest, err
			}
		}
		return rest, nil
	}
	return in, errReply
}

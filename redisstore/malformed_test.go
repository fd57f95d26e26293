package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore"
)

// endless writes part repeatedly until the client closes the connection, but at most 64
// MB.
func endless(part string) func(io.Writer) {
	return func(w io.Writer) {
		chunk := []byte(strings.Repeat(part, 1+64<<10/len(part)))
		for range 64 << 20 / len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

// malformed are replies that no client should have to handle.
var malformed = map[string]struct {
	text string
	more func(io.Writer) // writes further bytes after text; may be nil
}{
	"two replies":                 {text: "+OK\r\n+OK\r\n+OK\r\n"},
	"negative array":              {text: "*-2\r\n"},
	"negative string":             {text: "$-5\r\n"},
	"negative map":                {text: "%-1\r\n"},
	"negative set":                {text: "~-3\r\n"},
	"negative push":               {text: ">-1\r\n"},
	"negative blob error":         {text: "!-2\r\n"},
	"huge array":                  {text: "*1000000000\r\n"},
	"impossible array":            {text: "*9223372036854775807\r\n"},
	"huge string":                 {text: "$80000000000\r\n"},
	"impossible string":           {text: "$9223372036854775807\r\n"},
	"huge map":                    {text: "%4611686018427387904\r\n"},
	"huge attribute":              {text: "|1000000000\r\n"},
	"huge push":                   {text: ">1000000000\r\n"},
	"overflowing length":          {text: "$99999999999999999999999\r\n"},
	"endless line":                {text: "+", more: endless("A")},
	"endless error":               {text: "-ERR ", more: endless("A")},
	"endless number":              {text: ":", more: endless("1")},
	"endless nesting":             {more: endless("*1\r\n")},
	"endless attributes":          {more: endless("|1\r\n+a\r\n+b\r\n")},
	"endless chunks of a string":  {text: "$?\r\n", more: endless(";4\r\nAAAA\r\n")},
	"endless elements":            {text: "*?\r\n", more: endless(":1\r\n")},
	"endless announced elements":  {text: "*131072\r\n", more: endless("*131072\r\n")},
	"endless push messages":       {text: ">131072\r\n", more: endless(">131072\r\n")},
	"letters in a length":         {text: "$abc\r\n"},
	"empty length":                {text: "$\r\n"},
	"missing line feed":           {text: "+OK\r+OK\r"},
	"missing carriage return":     {text: "+OK\n"},
	"string without a line end":   {text: "$2\r\nOKxx"},
	"boolean of several letters":  {text: "#true\r\n"},
	"null with a text":            {text: "_null\r\n"},
	"unknown type":                {text: "HTTP/1.1 400 Bad Request\r\n\r\n"},
	"end without a beginning":     {text: ".\r\n"},
	"subscription":                {text: ">3\r\n+subscribe\r\n+x\r\n:1\r\n"},
	"push message in an array":    {text: "*2\r\n>2\r\n+subscribe\r\n+x\r\n:1\r\n"},
	"redirection without address": {text: "-MOVED\r\n"},
	"ask without address":         {text: "-ERR ASK 1\r\n"},
	"integer":                     {text: ":1\r\n"},
	"null":                        {text: "_\r\n"},
	"array":                       {text: "*0\r\n"},
	"empty string":                {text: "$0\r\n\r\n"},
	"short script reply":          {text: "$32\r\n" + strings.Repeat("\x00", 32) + "\r\n"},
	"long script reply":           {text: "$34\r\n" + strings.Repeat("\x00", 34) + "\r\n"},
	"instant that is no number":   {text: scriptReply(math.NaN(), absentState)},
	"negative instant":            {text: scriptReply(-1, absentState)},
	"impossible instant":          {text: scriptReply(1e300, absentState)},
	"state that is no number":     {text: scriptReply(1e15, "\x01"+strings.Repeat("\xff", 24))},
	"impossible state":            {text: scriptReply(1e15, "\x01"+strings.Repeat("\x7f", 24))},
}

// A malformed reply is an error of its call, whatever request it answers, and the store
// works as soon as the server does.
func TestMalformedReplies(t *testing.T) {
	t.Parallel()
	for name, m := range malformed {
		for _, command := range []string{"HELLO", "EVALSHA"} {
			if name == "array" && command == "HELLO" {
				continue // the server may have nothing to report
			}
			t.Run(name+" to "+command, func(t *testing.T) {
				t.Parallel()
				server := &fakeServer{mode: "standalone"}
				server.start(t)
				server.damage(command, m.text, m.more)
				server.checkMalformed(t)
			})
		}
	}
}

// A malformed reply about the topology is an error, too, in a cluster and with Sentinel.
func TestMalformedTopology(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, mode, command, text string }{
		{"no slots", "cluster", "CLUSTER", "*0\r\n"},
		{"no array of slots", "cluster", "CLUSTER", "+OK\r\n"},
		{"empty range of slots", "cluster", "CLUSTER", "*1\r\n*0\r\n"},
		{"slots without a node", "cluster", "CLUSTER", "*1\r\n*3\r\n:0\r\n:16383\r\n*0\r\n"},
		{"negative slots", "cluster", "CLUSTER", "*1\r\n*3\r\n:-5\r\n:99999\r\n*2\r\n+127.0.0.1\r\n:1\r\n"},
		{"huge array of slots", "cluster", "CLUSTER", "*1000000000\r\n"},
		{"two replies about slots", "cluster", "CLUSTER", "*0\r\n*0\r\n*0\r\n"},
		{"redirection without an address", "cluster", "EVALSHA", "-MOVED 1\r\n"},
		{"empty role", "sentinel", "ROLE", "*0\r\n"},
		{"two roles", "sentinel", "ROLE", "*1\r\n+master\r\n*1\r\n+master\r\n"},
		{"no primary", "sentinel", "SENTINEL", "*-1\r\n"},
		{"half an address of the primary", "sentinel", "SENTINEL", "*1\r\n$9\r\n127.0.0.1\r\n"},
		{"subscription is queued", "sentinel", "SUBSCRIBE", "+QUEUED\r\n"},
		{"unsubscription is queued", "sentinel", "UNSUBSCRIBE", "+QUEUED\r\n"},
		{"subscription confirmed before it is requested", "sentinel", "UNSUBSCRIBE", ">3\r\n+subscribe\r\n+x\r\n:1\r\n"},
		{"too many confirmations", "sentinel", "SUBSCRIBE", strings.Repeat(">3\r\n+subscribe\r\n+x\r\n:1\r\n", 9)},
		{"failover without an address", "sentinel", "SUBSCRIBE", confirmations + ">3\r\n+message\r\n$14\r\n+switch-master\r\n$8\r\nmymaster\r\n"},
		{"sentinel without an address", "sentinel", "SUBSCRIBE", confirmations + ">3\r\n+message\r\n$9\r\n+sentinel\r\n$8\r\nsentinel\r\n"},
	} {
		t.Run(test.mode+": "+test.name, func(t *testing.T) {
			t.Parallel()
			server := &fakeServer{mode: test.mode}
			server.start(t)
			server.damage(test.command, test.text, nil)
			s := server.open(t, 300*time.Millisecond)
			l := newLimiter(t, s)
			for range 3 {
				_, _ = l.Allow(t.Context(), "key") // some replies only delay the discovery of a failover
			}
			server.awaitDecision(t, l)
		})
	}
}

// checkMalformed checks that calls fail, and no longer fail when the server's replies
// are correct.
func (f *fakeServer) checkMalformed(t *testing.T) {
	t.Helper()
	s := f.open(t, 300*time.Millisecond)
	l := newLimiter(t, s)
	var storeErr *headgate.StoreError
	for range 3 {
		if d, err := l.Allow(t.Context(), "key"); !errors.As(err, &storeErr) {
			t.Errorf("malformed reply: got %+v, error %v want a store error", d, err)
		}
	}
	f.awaitDecision(t, l)
}

// awaitDecision makes the server's replies correct and waits for a decision.
func (f *fakeServer) awaitDecision(t *testing.T, l *headgate.Limiter) {
	t.Helper()
	f.damage("", "", nil)
	var err error
	for range 1000 {
		if _, err = l.Allow(t.Context(), "key"); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("correct replies: got error %v want a decision", err)
}

func newLimiter(t *testing.T, s headgate.Store) *headgate.Limiter {
	t.Helper()
	l, err := headgate.New(s, headgate.MustPolicy("10/1m"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// No reply makes the process allocate more than a bound.
func TestMalformedRepliesAllocation(t *testing.T) {
	const bound = 100 << 20
	for name, m := range malformed {
		server := &fakeServer{mode: "standalone"}
		server.start(t)
		server.damage("EVALSHA", m.text, m.more)
		l := newLimiter(t, server.open(t, 5*time.Second))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := l.Allow(t.Context(), "key")
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > bound {
			t.Errorf("%s: got %d bytes allocated, error %v want at most %d bytes", name, n, err, bound)
		}
	}
}

// Diagnose survives malformed replies to all commands that it sends.
func TestDiagnoseMalformedReplies(t *testing.T) {
	t.Parallel()
	for name, m := range malformed {
		for _, command := range []string{"HELLO", "INFO", "CONFIG", "TIME", "EVALSHA"} {
			t.Run(name+" to "+command, func(t *testing.T) {
				t.Parallel()
				server := &fakeServer{mode: "standalone"}
				server.start(t)
				server.damage(command, m.text, m.more)
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				findings, err := redisstore.Diagnose(ctx, server.url())
				if err != nil || len(findings) == 0 {
					t.Errorf("got %d findings, error %v", len(findings), err)
				}
			})
		}
	}
}

var mutations = flag.Int("mutations", 0, "mutated replies of a server; 0: few")

// Random mutations of the replies of a server, of a cluster node and of a sentinel are
// errors, or decisions within the limit.
func TestMutatedReplies(t *testing.T) {
	t.Parallel()
	total, stores := int64(*mutations), 16
	if total == 0 {
		total, stores = 200, 1
	}
	run := &mutationRun{total: total}
	for mode, n := range map[string]int{"standalone": 4 * stores, "cluster": stores, "sentinel": stores} {
		for i := range n {
			server := &fakeServer{mode: mode, random: rand.New(rand.NewPCG(uint64(i), uint64(n))), mutated: &run.mutated}
			server.start(t)
			l := newLimiter(t, server.open(t, 20*time.Millisecond))
			for range 2 {
				run.work.Go(func() { run.call(t, l) })
			}
		}
	}
	run.work.Wait()
	t.Logf("%d mutated replies: %d calls decided, %d failed", run.mutated.Load(), run.decided.Load(), run.failed.Load())
	if run.decided.Load() == 0 || run.failed.Load() == 0 {
		t.Errorf("got %d calls decided, %d failed want some of each", run.decided.Load(), run.failed.Load())
	}
}

type mutationRun struct {
	total                    int64
	mutated, decided, failed atomic.Int64
	work                     sync.WaitGroup
}

// call calls a limiter until enough replies were mutated.
func (r *mutationRun) call(t *testing.T, l *headgate.Limiter) {
	for r.mutated.Load() < r.total {
		d, err := l.Allow(t.Context(), "key")
		if err != nil {
			r.failed.Add(1)
			time.Sleep(time.Millisecond) // the store repeats the error of a failed attempt to connect
			continue
		}
		r.decided.Add(1)
		if d.Limit != 10 || d.Remaining < 0 || d.Remaining > 9 || d.RetryAfter < 0 || d.ResetAfter < 0 {
			t.Errorf("impossible decision %+v", d)
		}
	}
}

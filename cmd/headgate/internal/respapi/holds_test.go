package respapi

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// newHoldClient returns a client whose replies have the times of the frozen clock.
func newHoldClient(t *testing.T, networked bool) (*client, *frozen) {
	f := newFrozen(t)
	h := New(mustEngine(t, f, policies), &Options{Networked: networked})
	h.now = start.Time
	return h.newClient(t), f
}

// resultReply encodes the result of one check.
func resultReply(values ...string) string {
	var b strings.Builder
	b.WriteString("*20\r\n")
	for i, name := range []string{
		"policy", "allowed", "limit", "capacity", "remaining", "retry_after_ms", "reset_after_ms", "reset_at", "denied", "denied_by",
	} {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n%s\r\n", len(name), name, strings.ReplaceAll(values[i], " ", "\r\n"))
	}
	return b.String()
}

// One request has several checks; all are allowed, or nothing is spent.
func TestSeveralChecks(t *testing.T) {
	for _, networked := range []bool{false, true} {
		c, _ := newHoldClient(t, networked)
		const midnight = "$24 2025-05-21T00:00:00.000Z"
		want := hgReply("*22", ":0", ":5", ":5", ":0", ":0", ":0", ":1", "$5 login", "*1 $11 login:5/15m", ":0") + "$7\r\nresults\r\n*2\r\n" +
			resultReply("$3 api", ":1", "$15 100/s\tburst\t200", ":200", ":200", ":0", ":0", midnight, ":0", "*0") +
			resultReply("$5 login", ":0", "$5 5/15m", ":5", ":5", ":0", ":0", midnight, ":1", "*1 $11 login:5/15m")
		want = strings.ReplaceAll(want, "\t", " ")
		if got := c.do("HG.CHECK", "api", "k", "30", "login", "k", "6"); got != want {
			t.Errorf("networked %v, denied:\n got %q\nwant %q", networked, got, want)
		}
		for _, command := range []string{"HG.PEEK", "HG.CHECK"} {
			if got := c.do(command, "api", "k", "30", "login", "k", "5"); field(got, "allowed") != ":1" || field(got, "policy") != "$5" {
				t.Errorf("networked %v, %s: got %q", networked, command, got)
			}
		}
		if got := c.do("HG.CHECK", "api", "k", "171"); !strings.HasPrefix(got, "*20\r\n$7\r\nallowed\r\n:0\r\n") {
			t.Errorf("the second check of 171 units: got %q", got)
		}
		if got := c.do("HG.REFUND", "api", "k", "30", "login", "k", "5"); !strings.Contains(got, "$9\r\nremaining\r\n:200\r\n") {
			t.Errorf("refunded: got %q", got)
		}
	}
}

var holdField = regexp.MustCompile(`\$4\r\nhold\r\n\$\d+\r\n(\S+)\r\n\$10\r\nexpires_at\r\n\$24\r\n(\S+)\r\n`)

// tokenIn returns the token and the deadline of the hold in a reply.
func tokenIn(t *testing.T, reply string) (token, expires string) {
	t.Helper()
	m := holdField.FindStringSubmatch(reply)
	if m == nil {
		t.Fatalf("no hold in %q", reply)
	}
	return m[1], m[2]
}

// field returns the value of the first field with a name.
func field(reply, name string) string {
	_, rest, _ := strings.Cut(reply, "\r\n"+name+"\r\n")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

func TestHolds(t *testing.T) {
	for _, networked := range []bool{false, true} {
		c, f := newHoldClient(t, networked)
		reply := c.do("HG.HOLD", "a", "30s", "login", "k", "4")
		token, expires := tokenIn(t, reply)
		if !strings.HasPrefix(reply, "*28\r\n") || field(reply, "remaining") != ":1" || field(reply, "replayed") != ":0" || expires != "2025-05-21T00:00:30.000Z" {
			t.Fatalf("got %q", reply)
		}
		if got := c.do("hg.hold", "a", "30s", "login", "k", "4"); field(got, "replayed") != ":1" || field(got, "remaining") != ":1" {
			t.Errorf("repeated: got %q", got)
		}
		f.at(20 * time.Second)
		reply = c.do("HG.EXTEND", "30s", token, token)
		if token, expires = tokenIn(t, reply); !strings.HasPrefix(reply, "*24\r\n") || expires != "2025-05-21T00:00:50.000Z" {
			t.Errorf("extended: got %q", reply)
		}
		for _, replayed := range []string{":0", ":1"} {
			if got := c.do("HG.COMMIT", token, "1"); field(got, "replayed") != replayed || field(got, "remaining") != ":4" || !strings.HasPrefix(got, "*24\r\n") {
				t.Errorf("committed: got %q want replayed %s", got, replayed)
			}
		}
		token, _ = tokenIn(t, c.do("HG.HOLD", "*", "1s", "login", "k", "1", "api", "k", "200"))
		if got := c.do("HG.CANCEL", token); field(got, "remaining") != ":4" {
			t.Errorf("cancelled: got %q", got)
		}
		if got := c.do("HG.HOLD", "*", "1s", "login", "k", "5"); field(got, "allowed") != ":0" || field(got, "hold") != "" || !strings.HasPrefix(got, "*24\r\n") {
			t.Errorf("denied: got %q", got)
		}
		if got := c.do("HG.UPTO", "login", "k", "9"); field(got, "granted") != ":4" || field(got, "remaining") != ":0" || !strings.HasPrefix(got, "*24\r\n") {
			t.Errorf("take-up-to: got %q", got)
		}
		if got := c.do("HG.DEBIT", "login", "k", "2"); field(got, "allowed") != ":1" || !strings.HasPrefix(got, "*22\r\n") {
			t.Errorf("debit: got %q", got)
		}
	}
}

// A leaky bucket has no holds, but every interface debits its units.
func TestDebitOfLeakyBucket(t *testing.T) {
	c, _ := newHoldClient(t, false)
	if got := c.do("HG.DEBIT", "queue", "k", "2"); field(got, "remaining") != ":4" {
		t.Errorf("debit: got %q want 4 remaining", got)
	}
	if got := c.do("HG.UPTO", "queue", "k", "9"); field(got, "granted") != ":4" || field(got, "remaining") != ":0" {
		t.Errorf("take-up-to: got %q want 4 granted", got)
	}
}

// A limit that does not know the hold has not counted the cost above the amount.
func TestCommitUncounted(t *testing.T) {
	c, _ := newHoldClient(t, false)
	token, _ := tokenIn(t, c.do("HG.HOLD", "a", "30s", "api", "k", "6", "login", "k", "2"))
	c.do("HG.RESET", "login", "k")
	for range 2 {
		if got := c.do("HG.COMMIT", token, "1", "5"); !strings.HasPrefix(got, "-NOHOLD unknown hold") || !strings.Contains(got, `not counted (3 under "login:5/15m", 3 under "login:20/d")`) {
			t.Errorf("got %q want an unknown hold with 3 units under login", got)
		}
	}
	if got := c.do("HG.PEEK", "api", "k", "0"); field(got, "remaining") != ":199" {
		t.Errorf("the other limit: got %q want 199 remaining", got)
	}
}

// The failure mode open has allowed the hold, so no store has it. The reply has the units
// above its amount.
func TestCommitUncountedOfDegradedHold(t *testing.T) {
	c, _ := newHoldClient(t, false)
	h := engine.ClientHold{
		ID: headgate.HoldID{1}, Expires: start + 1, Degraded: headgate.ReasonTimedOut,
		Checks: []engine.Check{{Policy: "open", Key: "k", Cost: 2}},
	}
	if got := c.do("HG.COMMIT", h.Token(), "5"); !strings.HasPrefix(got, "*26\r\n") || field(got, "uncounted") != ":3" {
		t.Errorf("above the amount: got %q want 3 units not counted", got)
	}
	if got := c.do("HG.COMMIT", h.Token(), "2"); !strings.HasPrefix(got, "*24\r\n") || strings.Contains(got, "uncounted") {
		t.Errorf("not above the amount: got %q", got)
	}
}

func TestHoldErrors(t *testing.T) {
	c, _ := newHoldClient(t, false)
	open, _ := tokenIn(t, c.do("HG.HOLD", "a", "30s", "login", "k", "2"))
	expired := engine.ClientHold{Expires: 1, Checks: []engine.Check{{Policy: "login", Key: "k"}}}
	logged := engine.ClientHold{Expires: start + 1e6, Checks: []engine.Check{{Limit: "10/1m", Algorithm: "sliding_log", Key: "k"}}}
	for _, tt := range []struct{ asked, want string }{
		{"HG.HOLD a 30s login", "ERR wrong number of arguments for 'hg.hold' command"},
		{"HG.HOLD a 30s login k 1 api k", "ERR wrong number of arguments for 'hg.hold' command"},
		{"HG.CHECK login k 1 api k", "ERR wrong number of arguments for 'hg.check' command"},
		{"HG.DEBIT login k 1 api", "ERR wrong number of arguments for 'hg.debit' command"},
		{"HG.CHECK login k 1 api k x", "ERR value is not an integer or out of range"},
		{"HG.HOLD a 30 login k", "ERR ttl is 30; must be a duration such as 30s, 10m or 1h"},
		{"HG.HOLD a 200h login k", "ERR invalid hold: ttl is 200h0m0s; must be 1ms to 168h (7 days)"},
		{"HG.HOLD " + strings.Repeat("i", 129) + " 1s login k", "ERR invalid hold: its id has 129 bytes; must be 1 to 128"},
		{"HG.HOLD a 30s login k 1", "CONFLICT hold conflicts with a hold of the same id"},
		{"HG.HOLD b 30s logn k 1", `NOPOLICY unknown policy "logn"; did you mean "login"?`},
		{"HG.HOLD b 30s queue k 1", "ERR unsupported: leaky_bucket has no holds; must be"},
		{"HG.HOLD b 30s api k 9007199254740992", "ERR invalid cost: cost is 9007199254740992; must be 0 to 9007199254740991"},
		{"HG.DEBIT login k -1", "ERR invalid cost: cost is -1"},
		{"HG.COMMIT " + open, "ERR wrong number of arguments for 'hg.commit' command"},
		{"HG.COMMIT " + open + " 1 2", "ERR invalid request: the number of actual costs is 2; must be 1"},
		{"HG.COMMIT " + open + " x", "ERR value is not an integer"},
		{"HG.COMMIT x 1", "ERR invalid request: the token of the hold is invalid"},
		{"HG.COMMIT " + logged.Token() + " 1000000001", "ERR invalid cost: cost is 1000000001; must be 0 to 1000000000 in a commit under sliding_log; the hold is still open: commit at most 1000000000, or cancel it"},
		{"HG.CANCEL " + token("api"), "EXPIREDHOLD hold has expired"},
		{"HG.CANCEL " + token("gone"), `NOPOLICY unknown policy "gone"`},
		{"HG.EXTEND 1s " + expired.Token(), "EXPIREDHOLD hold has expired"},
		{"HG.EXTEND x " + open, "ERR ttl is x"},
		{"HG.EXTEND 1s " + open + " x", "ERR invalid request: the token of the hold is invalid"},
	} {
		if got, want := c.do(words(tt.asked)...), "-"+tt.want; !strings.HasPrefix(got, want) {
			t.Errorf("%.60s: got %q, want %q", tt.asked, got, want)
		}
	}
	later := engine.ClientHold{Expires: start + 1, Checks: expired.Checks}
	if got := c.do("HG.CANCEL", later.Token()); !strings.HasPrefix(got, "-NOHOLD unknown hold") {
		t.Errorf("unknown: got %q", got)
	}
	if got := c.do("HG.PEEK", "login", "k"); field(got, "remaining") != ":3" {
		t.Errorf("invalid requests have changed the key: %q", got)
	}
}

// A hold whose token is too long for a request is not opened. Every other one can be
// extended, committed and canceled.
func TestLongTokens(t *testing.T) {
	const most = "9007199254740991"
	for _, body := range []int{0, 12 << 10} {
		opened, refused := 0, 0
		for size := 580; size <= 880; size += 4 {
			c := New(mustEngine(t, newFrozen(t), policies), &Options{MaxBodyBytes: body}).newClient(t)
			hold, commit := []string{"HG.HOLD", "*", "60s"}, []string{"HG.COMMIT", ""}
			for i := range 14 {
				hold = append(hold, "large", fmt.Sprintf("%02d%s", i, strings.Repeat("k", size-2)), most)
				commit = append(commit, most)
			}
			got := c.do(hold...)
			if strings.HasPrefix(got, "-ERR invalid request: the commit of this hold would have up to") {
				refused++
				continue
			}
			opened++
			token, _ := tokenIn(t, got)
			if commit[1] = token; len(request(commit...)) > cmp.Or(body, DefaultMaxRequestBytes) {
				t.Fatalf("keys of %d bytes: a commit has %d bytes", size, len(request(commit...)))
			}
			for _, command := range [][]string{{"HG.EXTEND", "168h", token}, commit, {"HG.CANCEL", token}} {
				if got := c.do(command...); !strings.HasPrefix(got, "*") {
					t.Fatalf("keys of %d bytes, %s: got %.100q", size, command[0], got)
				}
			}
		}
		if opened < 5 || refused < 5 {
			t.Errorf("body of %d bytes: %d holds opened, %d refused", body, opened, refused)
		}
	}
}

// With a networked store, pipelined requests about one key are executed in order, and a
// request with several keys after all earlier requests.
func TestPipelinedHolds(t *testing.T) {
	c, _ := newHoldClient(t, true)
	var in strings.Builder
	for i := range 20 {
		in.WriteString(request("HG.CHECK", "api", "k") + request("HG.HOLD", fmt.Sprint("id", i), "1m", "api", "k", "2"))
		in.WriteString(request("HG.CHECK", "api", "other", "1", "api", "k", "1"))
	}
	replies := strings.Split(c.send(in.String()), "allowed\r\n")[1:]
	var got []string
	for _, reply := range replies {
		if remaining := field("\r\n"+reply, "remaining"); strings.Contains(reply, "$5\r\nlimit\r\n:200\r\n$9\r\nremaining") {
			got = append(got, remaining)
		}
	}
	want := 200
	for i, remaining := range got {
		want -= []int{1, 2, 1}[i%3]
		if remaining != fmt.Sprintf(":%d", want) {
			t.Fatalf("request %d: got %s remaining want %d", i+1, remaining, want)
		}
	}
	if len(got) != 60 {
		t.Errorf("got %d replies want 60", len(got))
	}
}

func TestGetKeysOfSeveralChecks(t *testing.T) {
	c, _ := newHoldClient(t, false)
	for asked, want := range map[string]string{
		"COMMAND GETKEYS HG.CHECK api a 1 api b 1": "*2\r\n$1\r\na\r\n$1\r\nb\r\n",
		"COMMAND GETKEYS HG.HOLD id 1s api a":      "*1\r\n$1\r\na\r\n",
		"COMMAND GETKEYS HG.CANCEL x":              "-ERR The command has no key arguments\r\n",
		"COMMAND GETKEYS CL.THROTTLE k 1 1 1":      "*1\r\n$1\r\nk\r\n",
	} {
		if got := c.do(words(asked)...); got != want {
			t.Errorf("%s: got %q want %q", asked, got, want)
		}
	}
}

package respapi

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

// hgReply is the reply of HG.*, with encoded field values.
func hgReply(head string, values ...string) string {
	var b strings.Builder
	b.WriteString(head + "\r\n")
	for i, name := range []string{
		"allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "never", "policy", "denied_by", "degraded",
	} {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n%s\r\n", len(name), name, strings.ReplaceAll(values[i], " ", "\r\n"))
	}
	return b.String()
}

func TestPolicies(t *testing.T) {
	c := New(mustEngine(t, newFrozen(t), policies), nil).newClient(t)
	for i, tt := range []struct {
		asked string
		want  []string
	}{
		{"HG.CHECK login k", []string{":1", ":5", ":4", ":0", ":900000", ":0", ":0", "$5 login", "*0", ":0"}},
		{"hg.check login k 4", []string{":1", ":5", ":0", ":0", ":900000", ":0", ":0", "$5 login", "*0", ":0"}},
		{"HG.CHECK login k", []string{":0", ":5", ":0", ":900000", ":900000", ":0", ":0", "$5 login", "*1 $11 login:5/15m", ":0"}},
		{"HG.PEEK login k", []string{":0", ":5", ":0", ":900000", ":900000", ":0", ":0", "$5 login", "*1 $11 login:5/15m", ":0"}},
		{"HG.PEEK login k 0", []string{":1", ":5", ":0", ":0", ":900000", ":0", ":0", "$5 login", "*0", ":0"}},
		{"HG.CHECK login k 21", []string{":0", ":5", ":0", ":0", ":900000", ":0", ":1", "$5 login", "*2 $11 login:5/15m $10 login:20/d", ":0"}},
		{"HG.REFUND login k", []string{":1", ":5", ":1", ":0", ":900000", ":0", ":0", "$5 login", "*0", ":0"}},
		{"HG.REFUND login k 100", []string{":1", ":5", ":5", ":0", ":0", ":0", ":0", "$5 login", "*0", ":0"}},
		{"HG.CHECK login k 5", []string{":1", ":5", ":0", ":0", ":900000", ":0", ":0", "$5 login", "*0", ":0"}},
		{"HG.RESET login k", []string{":1", ":5", ":5", ":0", ":0", ":0", ":0", "$5 login", "*0", ":0"}},
		{"HG.RESET login k 1", []string{":1", ":5", ":5", ":0", ":0", ":0", ":0", "$5 login", "*0", ":0"}},
		{"HG.CHECK api k 100", []string{":1", ":200", ":100", ":0", ":1000", ":0", ":0", "$3 api", "*0", ":0"}},
		{"HG.CHECK api k 101", []string{":0", ":200", ":100", ":10", ":1000", ":0", ":0", "$3 api", "*1 $3 api", ":0"}},
		{"HG.CHECK large k 9007199254740990", []string{":1", ":9007199254740991", ":1", ":0", ":900000", ":0", ":0", "$5 large", "*0", ":0"}},
		{"HG.REFUND large k 4503599627370497", []string{":1", ":9007199254740991", ":4503599627370498", ":0", ":900000", ":0", ":0", "$5 large", "*0", ":0"}},
		{"HG.CHECK queue k", []string{":1", ":6", ":5", ":0", ":100", ":0", ":0", "$5 queue", "*0", ":0"}},
		{"HG.CHECK queue k", []string{":1", ":6", ":4", ":0", ":200", ":100", ":0", "$5 queue", "*0", ":0"}},
	} {
		if got, want := c.do(words(tt.asked)...), hgReply("*20", tt.want...); got != want {
			t.Errorf("%d, %s:\n got %q\nwant %q", i, tt.asked, got, want)
		}
	}
}

func TestPoliciesInRESP3(t *testing.T) {
	c := New(mustEngine(t, newFrozen(t), policies), nil).newClient(t)
	c.do("HELLO", "3")
	want := hgReply("%10", "#t", ":200", ":199", ":0", ":10", ":0", "#f", "$3 api", "*0", "#f")
	if got := c.do("HG.CHECK", "api", "k"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want = hgReply("%10", "#f", ":200", ":199", ":0", ":10", ":0", "#t", "$3 api", "*1 $3 api", "#f")
	if got := c.do("HG.CHECK", "api", "k", "201"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := c.do("CL.THROTTLE", "k", "15", "30", "60"), numbersReply(0, 16, 15, -1, 2); got != want {
		t.Errorf("CL.THROTTLE: got %q, want %q", got, want)
	}
}

func TestPolicyErrors(t *testing.T) {
	c := New(mustEngine(t, newFrozen(t), policies), nil).newClient(t)
	for _, tt := range []struct{ asked, want string }{
		{"HG.CHECK", "ERR wrong number of arguments for 'hg.check' command"},
		{"HG.CHECK login", "ERR wrong number of arguments for 'hg.check' command"},
		{"HG.PEEK login k 1 1", "ERR wrong number of arguments for 'hg.peek' command"},
		{"HG.REFUND login k 1 1", "ERR wrong number of arguments for 'hg.refund' command"},
		{"HG.RESET login k 1 1", "ERR wrong number of arguments for 'hg.reset' command"},
		{"HG.CHECK login k x", "ERR value is not an integer or out of range"},
		{"HG.CHECK login k -1", "ERR invalid cost: cost is -1; must be 0 or more (0 peeks)"},
		{"HG.REFUND login k 9007199254740992", "ERR invalid cost: cost is 9007199254740992; must be 0 to 9007199254740991"},
		{"HG.CHECK logon k", `NOPOLICY unknown policy "logon"; did you mean "login"?`},
		{"HG.CHECK " + strings.Repeat("p", 100) + " k", `NOPOLICY unknown policy "` + strings.Repeat("p", 64) + `…"`},
		{"HG.CHECK login " + strings.Repeat("k", 1025), "ERR invalid request: the key has 1025 bytes; must be at most 1024"},
	} {
		if got, want := c.do(words(tt.asked)...), "-"+tt.want+"\r\n"; got != want {
			t.Errorf("%.40s: got %q, want %q", tt.asked, got, want)
		}
	}
	if got := c.do("HG.CHECK", "", "k"); got != "-NOPOLICY policy name is empty\r\n" {
		t.Errorf("an empty name: got %q", got)
	}
	if got := c.do("HG.CHECK", "a\r\nb", "k"); got != "-NOPOLICY unknown policy \"a\\r\\nb\"\r\n" {
		t.Errorf("a line end in a name: got %q", got)
	}
}

// TestPolicyReload: a changed policy applies from the next request on.
func TestPolicyReload(t *testing.T) {
	e := mustEngine(t, newFrozen(t), policies)
	c := New(e, nil).newClient(t)
	c.do("HG.CHECK", "api", "k", "150")
	if err := e.Apply(&engine.Options{Policies: map[string]headgate.Policy{"api": headgate.MustPolicy("100/s burst 160")}}); err != nil {
		t.Fatal(err)
	}
	want := hgReply("*20", ":1", ":160", ":9", ":0", ":1510", ":0", ":0", "$3 api", "*0", ":0")
	if got := c.do("HG.CHECK", "api", "k"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// unavailable is an unavailable store whose error contains a secret.
type unavailable struct{ headgate.Store }

func (a unavailable) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := a.Store.Bind(rule)
	return awayBound{b}, err
}

type awayBound struct{ headgate.Bound }

func (awayBound) Apply(context.Context, headgate.Instant, string, headgate.Verb, int64) (headgate.Decision, error) {
	return headgate.Decision{}, &headgate.StoreError{
		Store: "redis", Reason: headgate.ReasonTimedOut, Err: fmt.Errorf("dial tcp 10.1.2.3:6379"),
	}
}

func TestStoreUnavailable(t *testing.T) {
	store := memstore.New(&memstore.Options{MaxEntries: 100})
	c := New(mustEngine(t, unavailable{store}, policies), nil).newClient(t)
	for asked, want := range map[string]string{
		"HG.CHECK api k":         "-UNDECIDED the store could not decide: timed out\r\n",
		"CL.THROTTLE k 15 30 60": "-Cell error: Store error: the store could not decide: timed out\r\n",
		"THROTTLE k 15 30 60":    "-ERR Rate limit check failed: the store could not decide: timed out\r\n",
	} {
		if got := c.do(words(asked)...); got != want {
			t.Errorf("%s: got %q, want %q", asked, got, want)
		}
	}
	c = New(mustEngine(t, store, policies), nil).newClient(t)
	_ = store.Close()
	if got, want := c.do("HG.CHECK", "api", "k"), "-UNDECIDED store is closed\r\n"; got != want {
		t.Errorf("a closed store: got %q, want %q", got, want)
	}
}

package envoyxds_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/controlplane"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyxds"
	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"
	"github.com/headgate/headgate/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// held are rules that refuse domains that begin with “bad”.
type held struct {
	mu      sync.Mutex
	uses    []string // the domains of each, in order
	refused []string
}

func (h *held) Use(resources []*envoyxds.Resource) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	domains := make([]string, len(resources))
	for i, r := range resources {
		domains[i] = r.GetDomain()
	}
	slices.Sort(domains)
	text := strings.Join(domains, " ")
	if strings.Contains(text, "bad") {
		return errors.New("this is bad: " + text)
	}
	h.uses = append(h.uses, text)
	return nil
}

func (h *held) Refused(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = append(h.refused, err.Error())
}

// last is what holds, and how often something else was put in its place.
func (h *held) last() (string, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.uses) == 0 {
		return "nothing", 0
	}
	return h.uses[len(h.uses)-1], len(h.uses)
}

func (h *held) refusals() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.refused)
}

// subscribe runs a client until the test ends.
func subscribe(t *testing.T, opts envoyxds.Options) (*envoyxds.Client, *held) {
	t.Helper()
	rules := new(held)
	opts.ConnectRetry = cmp.Or(opts.ConnectRetry, 20*time.Millisecond)
	opts.BackoffInitial, opts.BackoffMax = cmp.Or(opts.BackoffInitial, 20*time.Millisecond), cmp.Or(opts.BackoffMax, 40*time.Millisecond)
	c, err := envoyxds.New(rules, &opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c, rules
}

// eventually waits until something holds, for as long as a busy machine may take.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 20 s: %s", what)
}

func (h *held) is(want string) func() bool {
	return func() bool { got, _ := h.last(); return got == want }
}

func domain(name string) *envoyxds.Resource {
	return &envoyxds.Resource{Name: name, Domain: name}
}

// It says who it is, takes what it is sent whole, and says that it holds.
func TestSubscription(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("me", "1", domain("a"), domain("b"))
	_, rules := subscribe(t, envoyxds.Options{
		Server: plane.Addr(), NodeID: "me", NodeMetadata: map[string]string{"zone": "x=1"}, Headers: map[string]string{"authorization": "Bearer s"},
	})
	eventually(t, "the first answer holds", rules.is("a b"))
	plane.Push("me", "2", domain("c"))
	eventually(t, "the second answer holds, and nothing else", rules.is("c"))
	plane.Push("me", "3")
	eventually(t, "there is nothing any more", rules.is(""))
	eventually(t, "each is acknowledged", func() bool { return len(plane.Requests()) == 4 })
	for i, r := range plane.Requests() {
		if r.GetVersionInfo() != []string{"", "1", "2", "3"}[i] || r.GetErrorDetail() != nil || (r.GetResponseNonce() == "") != (i == 0) ||
			r.GetTypeUrl() != envoyxds.TypeURL || len(r.GetResourceNames()) != 0 {
			t.Errorf("request %d is %v", i, r)
		}
	}
	node := plane.Requests()[0].GetNode()
	if node.GetId() != "me" || node.GetMetadata().GetFields()["zone"].GetStringValue() != "x=1" {
		t.Errorf("it calls itself %v", node)
	}
	if got := plane.Headers()[0].Get("authorization"); !slices.Equal(got, []string{"Bearer s"}) {
		t.Errorf("it sends the header %q", got)
	}
}

// What is wrong is refused with its reason and the last good one stays. The control plane sends it again at once, for ever: that keeps
// nobody busy, and what it sends when it is mended is taken.
func TestRefusal(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("default", "1", domain("good"))
	_, rules := subscribe(t, envoyxds.Options{Server: plane.Addr()})
	eventually(t, "the first answer holds", rules.is("good"))
	plane.Push("default", "2", domain("bad"), domain("bad, too"), domain("better")) // in another order each time
	eventually(t, "it is refused several times", func() bool { return len(plane.Refusals()["1"]) >= 3 })
	began, before := time.Now(), len(plane.Refusals()["1"])
	eventually(t, "it is refused once more", func() bool { return len(plane.Refusals()["1"]) > before })
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("what comes again is refused again in %v", took)
	}
	want := "this is bad: bad bad, too better"
	for _, reason := range plane.Refusals()["1"] {
		if reason != want {
			t.Errorf("the reason is %q, want %q", reason, want)
		}
	}
	if got := rules.refusals(); !slices.Equal(got, []string{want}) || !rules.is("good")() {
		t.Errorf("the rules were told %q, want it once, and the last good ones kept", got)
	}
	plane.Push("default", "3", domain("mended"))
	eventually(t, "what is mended holds", rules.is("mended"))
	plane.Push("default", "2", domain("bad"), domain("bad, too"), domain("better"))
	eventually(t, "the same again behind a good one is told again", func() bool { return len(rules.refusals()) == 2 })
}

// A control plane that goes away changes nothing; when it is back, what it says holds, whatever it calls it.
func TestControlPlaneGoesAndComes(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("default", "1", domain("before"))
	client, rules := subscribe(t, envoyxds.Options{Server: plane.Addr(), BackoffRandom: 0.5})
	eventually(t, "the first answer holds", rules.is("before"))
	if !client.State().Connected {
		t.Error("it says that it is not connected")
	}
	for round := range 3 {
		plane.Down()
		failures := client.State().Failures
		eventually(t, "it is known to be away, and tried", func() bool { s := client.State(); return !s.Connected && s.Failures > failures+2 })
		plane.Up()
		name := fmt.Sprintf("after %d", round)
		plane.Push("default", "1", domain(name))
		eventually(t, name, rules.is(name))
		if !client.State().Connected {
			t.Error("it says that it is not connected")
		}
	}
	for _, r := range plane.Requests() {
		if r.GetResponseNonce() == "" && r.GetVersionInfo() != "" {
			t.Errorf("a stream begins with the version %s of another one, which the control plane may call something else by", r.GetVersionInfo())
		}
	}
}

// An answer that is longer than accepted is not taken, and one that is shorter is, afterwards.
func TestLongestAnswer(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("default", "1", domain("short"))
	var told log
	opts := told.options(plane.Addr())
	opts.MaxMessageBytes = 1000
	client, rules := subscribe(t, opts)
	eventually(t, "the first answer holds", rules.is("short"))
	plane.Push("default", "2", domain(strings.Repeat("x", 1001)))
	eventually(t, "it is not taken", func() bool { return client.State().Failures > 1 })
	if !rules.is("short")() {
		t.Error("the last good one does not stay")
	}
	if told.count("has to be raised") == 0 {
		t.Error("the log does not say what to do")
	}
	plane.Push("default", "3", domain("short, too"))
	eventually(t, "the next holds", rules.is("short, too"))
}

func TestNew(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]envoyxds.Options{
		"there is no server":                     {},
		"a certificate file requires a key file": {Server: "s:1", TLS: &tlsfiles.Files{Cert: "c"}},
		"no such file":                           {Server: "s:1", TLS: &tlsfiles.Files{CA: t.TempDir() + "/ca"}},
		"no such file or directory":              {Server: "s:1", TLS: &tlsfiles.Files{Cert: "/nowhere/c", Key: "/nowhere/k"}},
		"is no UTF-8 text":                       {Server: "s:1", NodeID: "\xff"},
		"metadata is no UTF-8 text":              {Server: "s:1", NodeMetadata: map[string]string{"zone": "\xff"}},
		"holds no certificate":                   {Server: "s:1", TLS: &tlsfiles.Files{CA: "envoyxds.go"}},
	} {
		if _, err := envoyxds.New(new(held), &opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

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

// rulesRecorder records applied rules. It rejects domains that begin with “bad”.
type rulesRecorder struct {
	mu      sync.Mutex
	applied []string // the domains of each configuration, in order
	refused []string
}

func (h *rulesRecorder) Apply(resources []*envoyxds.Resource) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	domains := make([]string, len(resources))
	for i, r := range resources {
		domains[i] = r.GetDomain()
	}
	slices.Sort(domains)
	text := strings.Join(domains, " ")
	if strings.Contains(text, "bad") {
		return errors.New("invalid: " + text)
	}
	h.applied = append(h.applied, text)
	return nil
}

func (h *rulesRecorder) Refused(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = append(h.refused, err.Error())
}

// last returns the effective domains, and how many configurations were applied.
func (h *rulesRecorder) last() (string, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.applied) == 0 {
		return "nothing", 0
	}
	return h.applied[len(h.applied)-1], len(h.applied)
}

func (h *rulesRecorder) refusals() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.refused)
}

// subscribe runs a client until the test ends.
func subscribe(t *testing.T, opts envoyxds.Options) (*envoyxds.Client, *rulesRecorder) {
	t.Helper()
	rules := new(rulesRecorder)
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

// eventually waits until a condition is true, long enough for a busy machine.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("not within 20 s: %s", what)
}

func (h *rulesRecorder) is(want string) func() bool {
	return func() bool { got, _ := h.last(); return got == want }
}

func domain(name string) *envoyxds.Resource {
	return &envoyxds.Resource{Name: name, Domain: name}
}

// The client sends its node, applies complete responses and acknowledges them.
func TestSubscription(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("me", "1", domain("a"), domain("b"))
	_, rules := subscribe(t, envoyxds.Options{
		Server: plane.Addr(), NodeID: "me", NodeMetadata: map[string]string{"zone": "x=1"}, Headers: map[string]string{"authorization": "Bearer s"},
	})
	eventually(t, "the first response is applied", rules.is("a b"))
	plane.Push("me", "2", domain("c"))
	eventually(t, "the second response replaces the first", rules.is("c"))
	plane.Push("me", "3")
	eventually(t, "the configuration is empty", rules.is(""))
	eventually(t, "each response is acknowledged", func() bool { return len(plane.Requests()) == 4 })
	for i, r := range plane.Requests() {
		if r.GetVersionInfo() != []string{"", "1", "2", "3"}[i] || r.GetErrorDetail() != nil || (r.GetResponseNonce() == "") != (i == 0) ||
			r.GetTypeUrl() != envoyxds.TypeURL || len(r.GetResourceNames()) != 0 {
			t.Errorf("request %d is %v", i, r)
		}
	}
	node := plane.Requests()[0].GetNode()
	if node.GetId() != "me" || node.GetMetadata().GetFields()["zone"].GetStringValue() != "x=1" {
		t.Errorf("got node %v", node)
	}
	if got := plane.Headers()[0].Get("authorization"); !slices.Equal(got, []string{"Bearer s"}) {
		t.Errorf("got header %q", got)
	}
}

// An invalid configuration is rejected with its reason, and the last valid one stays.
// The control plane immediately sends a rejected configuration again, forever:
// replies are delayed, and a corrected configuration is applied.
func TestRejection(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("default", "1", domain("good"))
	_, rules := subscribe(t, envoyxds.Options{Server: plane.Addr()})
	eventually(t, "the first response is applied", rules.is("good"))
	plane.Push("default", "2", domain("bad"), domain("bad, too"), domain("better")) // in another order each time
	eventually(t, "it is rejected several times", func() bool { return len(plane.Refusals()["1"]) >= 3 })
	began, before := time.Now(), len(plane.Refusals()["1"])
	eventually(t, "it is rejected once more", func() bool { return len(plane.Refusals()["1"]) > before })
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("a repeated response was rejected again after %v, want at least 100ms", took)
	}
	want := "invalid: bad bad, too better"
	for _, reason := range plane.Refusals()["1"] {
		if reason != want {
			t.Errorf("got reason %q, want %q", reason, want)
		}
	}
	if got := rules.refusals(); !slices.Equal(got, []string{want}) || !rules.is("good")() {
		t.Errorf("got rejections %q, want one, and the last valid rules kept", got)
	}
	plane.Push("default", "3", domain("corrected"))
	eventually(t, "the corrected configuration is applied", rules.is("corrected"))
	plane.Push("default", "2", domain("bad"), domain("bad, too"), domain("better"))
	eventually(t, "the same invalid configuration after a valid one is reported again", func() bool { return len(rules.refusals()) == 2 })
}

// While the control plane is unavailable, the configuration stays. After recovery its
// configuration is applied, whatever the version.
func TestControlPlaneUnavailable(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("default", "1", domain("before"))
	client, rules := subscribe(t, envoyxds.Options{Server: plane.Addr(), BackoffRandom: 0.5})
	eventually(t, "the first response is applied", rules.is("before"))
	if !client.State().Connected {
		t.Error("State reports that the client is not connected")
	}
	for round := range 3 {
		plane.Down()
		failures := client.State().Failures
		eventually(t, "the client reports failures", func() bool { s := client.State(); return !s.Connected && s.Failures > failures+2 })
		plane.Up()
		name := fmt.Sprintf("after %d", round)
		plane.Push("default", "1", domain(name))
		eventually(t, name, rules.is(name))
		if !client.State().Connected {
			t.Error("State reports that the client is not connected")
		}
	}
	for _, r := range plane.Requests() {
		if r.GetResponseNonce() == "" && r.GetVersionInfo() != "" {
			t.Errorf("a stream begins with version %s of an earlier stream", r.GetVersionInfo())
		}
	}
}

// A response above the size limit is refused; a later, smaller one is applied.
func TestMaxMessageBytes(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("default", "1", domain("short"))
	var logged log
	opts := logged.options(plane.Addr())
	opts.MaxMessageBytes = 1000
	client, rules := subscribe(t, opts)
	eventually(t, "the first response is applied", rules.is("short"))
	plane.Push("default", "2", domain(strings.Repeat("x", 1001)))
	eventually(t, "it is refused", func() bool { return client.State().Failures > 1 })
	if !rules.is("short")() {
		t.Error("the last valid configuration does not stay")
	}
	if logged.count("increase envoy.xds.max_message_bytes") == 0 {
		t.Error("the log does not contain the advice")
	}
	plane.Push("default", "3", domain("short, too"))
	eventually(t, "the next one is applied", rules.is("short, too"))
}

func TestNew(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]envoyxds.Options{
		"Server is empty": {},
		"the certificate file and the key file must be set together": {Server: "s:1", TLS: &tlsfiles.Files{Cert: "c"}},
		"no such file":                {Server: "s:1", TLS: &tlsfiles.Files{CA: t.TempDir() + "/ca"}},
		"no such file or directory":   {Server: "s:1", TLS: &tlsfiles.Files{Cert: "/nowhere/c", Key: "/nowhere/k"}},
		"is not valid UTF-8":          {Server: "s:1", NodeID: "\xff"},
		"Metadata is not valid UTF-8": {Server: "s:1", NodeMetadata: map[string]string{"zone": "\xff"}},
		"contains no certificate":     {Server: "s:1", TLS: &tlsfiles.Files{CA: "envoyxds.go"}},
	} {
		if _, err := envoyxds.New(new(rulesRecorder), &opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

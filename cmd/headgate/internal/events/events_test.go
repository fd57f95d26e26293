package events_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/bans"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/events"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver is a receiver of webhooks.
type receiver struct {
	url string

	mu     sync.Mutex
	events []events.Event
	ids    []string
	fail   int // number of webhooks that are answered with status 500
	status int // status of all answers; 0 means 204
	err    string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := new(receiver)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = verify(secret, q.Header, body, time.Now())
	}
	if err != nil {
		r.err = err.Error()
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.ids = append(r.ids, q.Header.Get("webhook-id"))
	if r.fail > 0 {
		r.fail--
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	var e events.Event
	if err := json.Unmarshal(body, &e); err != nil {
		r.err = err.Error()
	}
	r.events = append(r.events, e)
	if r.status == 0 {
		r.status = http.StatusNoContent
	}
	w.WriteHeader(r.status)
}

// answer makes the receiver fail a number of times, and then answer with a status.
func (r *receiver) answer(fail, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail, r.status = fail, status
}

func (r *receiver) received() []events.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// types returns the received types of events of a key, sorted.
func (r *receiver) types(key string) string {
	var all []string
	for _, e := range r.received() {
		if e.Data.Key == key {
			all = append(all, e.Type)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// observer is the observer of an engine's view.
type observer struct {
	*events.Teller
	bans *bans.Watcher
}

func (observer) Begin() int64 { return 1 }

func (o observer) Observe(e *engine.Event) {
	o.Teller.Observe(e)
	if o.bans != nil {
		o.bans.Observe(e)
	}
}

func newTeller(t *testing.T, store headgate.HoldStore, opts events.Options, hook *events.WebhookOptions) (*events.Teller, *testserver.Log) {
	t.Helper()
	log := new(testserver.Log)
	opts.Store, opts.Log, opts.Instance = store, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), "test"
	if opts.Hash == nil {
		opts.Hash = func(policy, key string) string { return "h:" + policy + ":" + strconv.Itoa(len(key)) }
	}
	if hook != nil {
		hook.Secrets = []string{secret}
		var err error
		if opts.Webhook, err = events.NewWebhook(hook); err != nil {
			t.Fatal(err)
		}
	}
	teller := events.New(&opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		teller.Close(ctx)
	})
	return teller, log
}

func newEngine(t *testing.T, store headgate.Store, limit string, opts engine.PolicyOptions) *engine.Engine {
	t.Helper()
	policy := headgate.MustPolicy(limit)
	policy.Algorithm = headgate.FixedWindow
	opts.WarnAt = 8 * engine.All / 10
	e, err := engine.New(store, &engine.Options{
		Policies: map[string]headgate.Policy{"p": policy}, PolicyOptions: map[string]engine.PolicyOptions{"p": opts},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func take(t *testing.T, e *engine.Engine, key string, n int) {
	t.Helper()
	var a engine.Answer
	for range n {
		if err := e.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: "p", Key: key, Cost: 1}}, &a); err != nil {
			t.Fatal(err)
		}
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

// A key that passes the threshold and is then denied at three instances has one event of
// each type.
func TestEventsAreToldOnce(t *testing.T) {
	t.Parallel()
	server, r := testserver.Redis(t), newReceiver(t)
	var views []*engine.Engine
	var tellers []*events.Teller
	for range 3 {
		store, err := redisstore.Open("redis://"+server.Addr(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		teller, _ := newTeller(t, store, events.Options{Keys: events.PlainKeys}, &events.WebhookOptions{URL: r.url})
		tellers = append(tellers, teller)
		views = append(views, newEngine(t, store, "10/366d", engine.PolicyOptions{}).WithObserver(observer{teller, nil}, 0))
	}
	take(t, views[0], "quiet", 7)
	take(t, views[1], "near", 8)
	take(t, views[2], "near", 2)
	for range 5 {
		for _, e := range views {
			take(t, e, "busy", 4)
		}
	}
	for _, teller := range tellers {
		if err := teller.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]string{"quiet": "", "near": "limit.near", "busy": "limit.exhausted limit.near"} {
		if got := r.types(key); got != want {
			t.Errorf("%s: got events %q want %q", key, got, want)
		}
	}
	if r.err != "" {
		t.Error(r.err)
	}
	told := uint64(0)
	for _, teller := range tellers {
		s := teller.Stats()
		told += s.Told[events.NearLimit] + s.Told[events.Exhausted]
		if s.Dropped+s.Failed != 0 {
			t.Errorf("got %+v want nothing dropped", s)
		}
	}
	if told != 3 {
		t.Errorf("got %d told want 3", told)
	}
	for _, e := range r.received() {
		if e.Type == events.NearLimit && (e.Data.Warn != "80%" || e.Data.Limit != "10/52w2d" && e.Data.Limit != "10/366d" || e.Data.Capacity != 10 || *e.Data.Remaining > 2 || e.Data.Policy != "p" || e.Data.Instance != "test" || e.Data.Ends == nil) {
			t.Errorf("got %+v", e)
		}
	}
}

// Shadow mode, bans and the store have events, too; the log and hashed keys contain no
// key.
func TestEventsOfEveryType(t *testing.T) {
	t.Parallel()
	r, store := newReceiver(t), memstore.New(nil)
	teller, log := newTeller(t, store, events.Options{LogEvents: true}, &events.WebhookOptions{URL: r.url})
	watcher := bans.New(&bans.Options{Log: slog.New(slog.DiscardHandler), Hash: func(_, _ string) string { return "" }, Begun: teller.Begun})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); watcher.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	ban := engine.Ban{After: 3, Within: time.Minute, For: time.Hour}
	e := newEngine(t, store, "5/366d", engine.PolicyOptions{Ban: ban}).WithObserver(observer{teller, watcher}, 0)
	take(t, e, "secret", 8)
	eventually(t, "the ban is told", func() bool { return strings.Contains(r.types("h:p:6"), events.Banned) })
	shadow := newEngine(t, store, "5/365d", engine.PolicyOptions{Shadow: engine.All}).WithObserver(observer{teller, nil}, 0)
	take(t, shadow, "shadowed", 7)
	teller.ObserveStore(headgate.StoreEvent{Node: "a:1", Unavailable: true, Reason: headgate.ReasonTimedOut})
	teller.ObserveStore(headgate.StoreEvent{Node: "a:1"})
	if err := teller.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"h:p:6": "key.banned limit.exhausted limit.near", "h:p:8": "limit.exhausted", "": "store.recovered store.unavailable",
	} {
		if got := r.types(key); got != want {
			t.Errorf("%s: got events %q want %q", key, got, want)
		}
	}
	for _, one := range r.received() {
		if shadow := one.Data.Key == "h:p:8"; one.Data.Shadow != shadow {
			t.Errorf("got %+v want shadow %v", one, shadow)
		}
		if one.Type == events.Banned && (one.Data.Ban != 1 || one.Data.Ends.Sub(one.Time) != time.Hour) {
			t.Errorf("got %+v want the first ban, for 1 h", one)
		}
	}
	if text := log.String(); strings.Contains(text, "secret") || strings.Count(text, "limit of key exhausted") != 2 || strings.Count(text, "key near limit") != 1 {
		t.Errorf("got the log\n%s", text)
	}
}

// A webhook is repeated with the same id until it is accepted, and given up after all
// attempts. The pauses are those of the options.
func TestWebhookRetries(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.answer(2, 0)
	teller, log := newTeller(t, memstore.New(nil), events.Options{}, &events.WebhookOptions{URL: r.url + "/token", Attempts: 3, FirstPause: time.Millisecond})
	tell := func() {
		t.Helper()
		teller.ObserveStore(headgate.StoreEvent{Unavailable: true})
		if err := teller.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tell()
	if len(r.ids) != 3 || r.ids[0] != r.ids[2] || len(r.received()) != 1 {
		t.Errorf("got the ids %v and %d events want the same id 3 times", r.ids, len(r.received()))
	}
	r.answer(3, 0)
	tell()
	if s := teller.Stats(); s.Sent != 1 || s.Failed != 1 || s.Retries != 4 {
		t.Errorf("got %+v want 1 sent, 1 failed, 4 retries", s)
	}
	r.answer(0, http.StatusGone)
	tell()
	if s := teller.Stats(); s.Failed != 2 || s.Retries != 4 {
		t.Errorf("after 410: got %+v want 2 failed and no retry", s)
	}
	if text := log.String(); !strings.Contains(text, "webhook failed") || strings.Contains(text, "token") {
		t.Errorf("got the log\n%s", text)
	}
}

// A receiver that does not answer delays no decision, and the queue is bounded.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	store := memstore.New(nil)
	teller, _ := newTeller(t, store, events.Options{Queue: 3}, &events.WebhookOptions{URL: server.URL, Attempts: 1})
	e := newEngine(t, store, "1/366d", engine.PolicyOptions{}).WithObserver(observer{teller, nil}, 0)
	for n := range 100 {
		take(t, e, strconv.Itoa(n), 1)
	}
	eventually(t, "events are dropped", func() bool { return teller.Stats().Dropped > 0 })
}

// A claim that fails is noticed again, and a teller that is closed tells nothing.
func TestStoreFailureAndClose(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	proxy := testserver.Proxy(t, server.Addr())
	store, err := redisstore.Open("redis://"+proxy.Addr(), &redisstore.Options{Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := newReceiver(t)
	teller, _ := newTeller(t, store, events.Options{Keys: events.NoKeys}, &events.WebhookOptions{URL: r.url})
	e := newEngine(t, store, "1/366d", engine.PolicyOptions{}).WithObserver(observer{teller, nil}, 0)
	proxy.DropRepliesTo(1, "event:")
	take(t, e, "k", 1)
	if err := teller.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.types(""); got != events.NearLimit {
		t.Errorf("after a lost reply: got events %q want %s", got, events.NearLimit)
	}
	teller.Close(t.Context())
	take(t, e, "l", 2)
	teller.ObserveStore(headgate.StoreEvent{Unavailable: true})
	if s := teller.Stats(); s.Told[events.NearLimit] != 1 || s.Told[events.StoreUnavailable] != 0 {
		t.Errorf("after Close: got %+v", s)
	}
}

func TestWebhookErrors(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"": "not valid", "ftp://x": "not valid", "http://example.com/x": "not encrypted", "https://u:p@example.com/": "user name",
		"http://127.0.0.1:1/": "", "http://localhost:1/": "", "http://[::1]/": "", "https://example.com/hooks/token": "",
	} {
		_, err := events.NewWebhook(&events.WebhookOptions{URL: url, Secrets: []string{secret}})
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "u:p")) {
			t.Errorf("%q: got error %v want %q", url, err, want)
		}
	}
	for _, secrets := range [][]string{nil, {""}, {"whsec_"}, {"whsec_AAAA"}, {"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, {secret, secret, secret}} {
		if _, err := events.NewWebhook(&events.WebhookOptions{URL: "https://example.com", Secrets: secrets}); err == nil {
			t.Errorf("%q: got no error", secrets)
		}
	}
}

// The example of the specification of Standard Webhooks.
func TestSignAgainstTheSpecification(t *testing.T) {
	t.Parallel()
	key, err := events.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := events.Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

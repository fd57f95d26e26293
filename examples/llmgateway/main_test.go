package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/llmusage"
	"github.com/headgate/headgate/memstore"
)

// fakeModel answers like the chat completions of OpenAI. The prompt selects the answer:
// “stream”, “fail”, “hang” until the client disconnects, or anything else for a JSON
// answer.
func fakeModel(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	prompt := string(body)
	switch {
	case strings.Contains(prompt, "fail"):
		http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusServiceUnavailable)
	case strings.Contains(prompt, "stream me") && strings.Contains(prompt, `"include_usage":true`):
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"hello"}}],"usage":null}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, `data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":3}}`+"\n\ndata: [DONE]\n\n")
	case strings.Contains(prompt, "hang"):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"hello"}}],"usage":null}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":20,"completion_tokens":1}}`)
	}
}

// running is a gateway in front of a fake model, with the results of its requests.
type running struct {
	url     string
	gateway *gateway
	results chan llmusage.Result
}

func run(t *testing.T) *running {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(fakeModel))
	t.Cleanup(model.Close)
	g, err := newGateway(memstore.New(nil), model.URL)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	g.now = func() time.Time { return at }
	results := make(chan llmusage.Result, 100)
	g.done = func(r llmusage.Result) { results <- r }
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return &running{server.URL, g, results}
}

// post sends a prompt and returns the answer, or nothing if ctx ended.
func (r *running) post(ctx context.Context, t *testing.T, prompt string) (*http.Response, string) {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":100,"messages":[{"role":"user","content":%q}]}`, prompt)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer k-ann")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp, string(text)
}

// The actual usage of every kind of answer is charged.
func TestGatewayChargesActualUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prompt  string
		status  int
		tokens  int64
		answers string
	}{
		{"stream me", 200, 23, "[DONE]"},
		{"as JSON", 200, 21, `"hello"`},
		{"fail", 503, 0, "overloaded"},
	} {
		r := run(t)
		resp, text := r.post(t.Context(), t, c.prompt)
		result := <-r.results
		if resp.StatusCode != c.status || !strings.Contains(text, c.answers) || result.Err != nil || result.Actual[0] != 1 || result.Actual[1] != c.tokens {
			t.Errorf("%s: got %d %s, committed %+v want %d and %d tokens", c.prompt, resp.StatusCode, text, result, c.status, c.tokens)
		}
		if got := resp.Header.Get("x-ratelimit-remaining-requests"); got != "59" {
			t.Errorf("%s: got %q remaining requests want 59: %v", c.prompt, got, resp.Header)
		}
		d, err := r.gateway.limits.decisions(t.Context(), r.gateway.now(), "ann", make([]int64, len(policies)))
		if err != nil || d[0].Remaining != 59 || d[1].Remaining != 60_000-c.tokens {
			t.Errorf("%s: got %+v, error %v want 59 requests and %d tokens", c.prompt, d, err, 60_000-c.tokens)
		}
	}
}

// begin sends a request whose answer does not end, and reads its first bytes.
func (r *running) begin(ctx context.Context, t *testing.T) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(`{"stream":true,"max_tokens":100,"messages":"hang"}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer k-ann")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	return resp
}

// A client that disconnects in the middle of a stream is charged the estimate.
func TestDisconnectCostsEstimate(t *testing.T) {
	t.Parallel()
	r := run(t)
	ctx, cancel := context.WithCancel(t.Context())
	resp := r.begin(ctx, t)
	cancel()
	_ = resp.Body.Close()
	result := <-r.results
	if result.Reported || result.Actual[1] != 100+13 || result.Err != nil {
		t.Errorf("got %+v want the estimate of 113 tokens", result)
	}
}

// A client that disconnects before the answer begins is charged the estimate as well.
func TestDisconnectBeforeAnswerCostsEstimate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http then notices the end of the connection
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(model.Close)
	g, err := newGateway(memstore.New(nil), model.URL)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	g.now = func() time.Time { return at }
	q, err := newRequest([]byte(`{"max_tokens":100}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.open(ctx, at, "ann", q); !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v want context.Canceled", err)
	}
	d, err := g.limits.decisions(t.Context(), at, "ann", make([]int64, len(policies)))
	if err != nil || d[1].Remaining != 60_000-105 || d[3].Remaining != 8 {
		t.Errorf("got %+v, error %v want 105 tokens spent and 8 free streams", d, err)
	}
}

// While 8 streams are open, another one is denied and spends nothing. A stream that has
// ended is free again.
func TestConcurrentStreams(t *testing.T) {
	t.Parallel()
	r := run(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 8 {
		resp := r.begin(ctx, t)
		defer resp.Body.Close()
	}
	resp, text := r.post(t.Context(), t, "as JSON")
	if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "the limit of streams was exceeded") {
		t.Errorf("the ninth stream: got %d %s want 429", resp.StatusCode, text)
	}
	if got := resp.Header.Get("x-ratelimit-remaining-requests"); got != "52" {
		t.Errorf("got %s remaining requests want 52: the denied one spends nothing", got)
	}
	cancel()
	for range 8 {
		<-r.results
	}
	if resp, text := r.post(t.Context(), t, "as JSON"); resp.StatusCode != http.StatusOK {
		t.Errorf("after the streams have ended: got %d %s want 200", resp.StatusCode, text)
	}
}

// A denied request spends nothing of the other limits and has OpenAI's header fields.
func TestGatewayDenies(t *testing.T) {
	t.Parallel()
	r := run(t)
	for range 60 {
		r.post(t.Context(), t, "as JSON")
	}
	resp, text := r.post(t.Context(), t, "as JSON")
	if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "the limit of requests was exceeded") {
		t.Errorf("the 61st request: got %d %s want 429", resp.StatusCode, text)
	}
	for name, want := range map[string]string{
		"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m0s",
		"x-ratelimit-limit-tokens": "60000", "x-ratelimit-remaining-tokens": "58740", "x-ratelimit-reset-tokens": "1.26s", "Retry-After": "1",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: got %q want %q", name, got, want)
		}
	}
}

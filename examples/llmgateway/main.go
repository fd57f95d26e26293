// Llmgateway forwards requests to a language model. Each tenant has a limit of requests
// per minute, of tokens per minute, of concurrent streams, and a budget of money per
// month. A request is charged its estimate before it is forwarded, to all limits or to
// none, and the actual cost when the answer has ended.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/llmusage"
	"github.com/headgate/headgate/memstore"
)

// tenants is a placeholder for a database. It maps API keys to tenants.
var tenants = map[string]string{"k-ann": "ann", "k-bob": "bob"}

// gateway forwards the requests of tenants to an upstream that is compatible with
// OpenAI's chat completions.
type gateway struct {
	limits   *limits
	upstream string // URL of the chat completions
	client   *http.Client
	now      func() time.Time
	done     func(llmusage.Result) // for logs
}

// Limits on what a request may contain.
const (
	maxRequestBytes  = 1 << 20
	defaultMaxTokens = 1_000
	bytesPerToken    = 4 // of the input, on average
)

// request is a request of a tenant.
type request struct {
	body     []byte // as it is forwarded
	estimate llmusage.Usage
}

// newRequest prepares a request for forwarding: it estimates the usage and asks the
// upstream to report it.
func newRequest(body []byte) (*request, error) {
	fields := make(map[string]any)
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	most, ok := fields["max_tokens"].(float64)
	if !ok {
		most = defaultMaxTokens
		fields["max_tokens"] = defaultMaxTokens // so that the estimate is a bound
	}
	if most < 1 || most > 1e6 {
		return nil, errors.New("max_tokens must be 1 to 1000000")
	}
	if fields["stream"] == true {
		fields["stream_options"] = map[string]bool{"include_usage": true}
	}
	r := &request{estimate: llmusage.Usage{Input: int64(len(body)+bytesPerToken-1) / bytesPerToken, Output: int64(most)}}
	var err error
	r.body, err = json.Marshal(fields)
	return r, err
}

// ServeHTTP forwards a request if the limits of its tenant allow it.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tenant, ok := tenants[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		http.Error(w, "unknown API key", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		return // MaxBytesReader has closed the connection
	}
	q, err := newRequest(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := g.now()
	resp, hold, err := g.open(r.Context(), now, tenant, q)
	if err != nil {
		http.Error(w, "the model is not available", http.StatusBadGateway)
		return
	}
	g.writeFields(r.Context(), w, now, tenant, q, hold.OK())
	if !hold.OK() {
		http.Error(w, "the limit of "+strings.Join(hold.Decision().DeniedBy, " and ")+" was exceeded", http.StatusTooManyRequests)
		return
	}
	defer resp.Body.Close()
	copyAnswer(w, resp)
}

// [snippet open]

// open charges a request and forwards it. If the limits deny it, the hold is not OK and
// there is no response. Otherwise the caller must read or close the body of the response,
// which commits the actual cost.
func (g *gateway) open(ctx context.Context, now time.Time, tenant string, q *request) (*http.Response, *headgate.Hold, error) {
	hold, err := g.limits.hold(ctx, now, tenant, q.estimate)
	if err != nil || !hold.OK() {
		return nil, hold, err
	}
	resp, err := g.forward(ctx, q)
	if err != nil {
		actual := costsOf(llmusage.Usage{}) // the request counts, and no tokens
		if ctx.Err() != nil {
			actual = costsOf(q.estimate) // the client has disconnected, but the model may work
		}
		_, _ = hold.CommitAt(context.WithoutCancel(ctx), g.now(), actual...) // after an error, the estimate stays
		return nil, hold, err
	}
	err = llmusage.Track(ctx, resp, hold, &llmusage.Options{
		Estimate: costsOf(q.estimate),
		Cost:     costsOf,
		Extend:   holdTTL,
		Now:      g.now,
		Done:     g.done,
	})
	return resp, hold, err
}

// [end open]

func (g *gateway) forward(ctx context.Context, q *request) (*http.Response, error) {
	forwarded, err := http.NewRequestWithContext(ctx, http.MethodPost, g.upstream, strings.NewReader(string(q.body)))
	if err != nil {
		return nil, err
	}
	forwarded.Header.Set("Content-Type", "application/json")
	forwarded.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	return g.client.Do(forwarded)
}

// writeFields adds the fields that OpenAI's client libraries read. They cost one call of
// the store for each limit.
func (g *gateway) writeFields(ctx context.Context, w http.ResponseWriter, now time.Time, tenant string, q *request, allowed bool) {
	costs := make([]int64, len(g.limits.all))
	if !allowed {
		costs = amountsOf(q.estimate)
	}
	decisions, err := g.limits.decisions(ctx, now, tenant, costs)
	if err == nil {
		var text strings.Builder
		g.limits.writer.Write(w.Header(), g.limits.fields, decisions, now, &text)
	}
}

// copyAnswer copies an answer and sends each part immediately.
func copyAnswer(w http.ResponseWriter, resp *http.Response) {
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	control, buf := http.NewResponseController(w), make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return // the client has disconnected: closing the body commits the estimate
			}
			_ = control.Flush()
		}
		if err != nil {
			return
		}
	}
}

func newGateway(store headgate.Store, upstream string) (*gateway, error) {
	l, err := newLimits(store, policies)
	return &gateway{limits: l, upstream: upstream, client: &http.Client{}, now: time.Now}, err
}

func main() {
	upstream := cmp.Or(os.Getenv("UPSTREAM"), "https://api.openai.com/v1/chat/completions")
	g, err := newGateway(memstore.New(nil), upstream)
	if err != nil {
		log.Fatal(err)
	}
	g.done = func(r llmusage.Result) {
		log.Printf("committed %v, reported %v, error %v", r.Actual, r.Reported, r.Err)
	}
	log.Print("listening on http://localhost:8080/v1/chat/completions")
	http.Handle("POST /v1/chat/completions", g)
	log.Fatal(http.ListenAndServe("localhost:8080", nil))
}

package events

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Webhook is the endpoint that receives events. It is created with [NewWebhook].
type Webhook struct {
	url      string
	secrets  [][]byte
	timeout  time.Duration
	attempts int
	client   *http.Client
	first    time.Duration // pause after the first attempt, doubled for each further one
	longest  time.Duration
}

// WebhookOptions configure [NewWebhook]. A field with its zero value has the default in
// its comment.
type WebhookOptions struct {
	// URL is an https URL, or an http URL of a loopback address; required.
	URL string
	// Secrets are one or two secrets with which each webhook is signed; see
	// [ParseSecret]. Two are for a change of the secret: the receiver accepts a webhook
	// with a valid signature of either.
	Secrets []string
	// Timeout is the maximum time of one attempt; 0 means 5 s.
	Timeout time.Duration
	// Attempts is the maximum number of attempts; 0 means 10.
	Attempts int
	// FirstPause is the pause after the first attempt, on average; 0 means 1 s. It
	// doubles with each attempt, up to 1 minute.
	FirstPause time.Duration
	// Transport is used instead of a new transport; nil means a new one.
	Transport http.RoundTripper
}

const (
	defaultTimeout  = 5 * time.Second
	defaultAttempts = 10
	longestPause    = time.Minute
	minSecretBytes  = 24
	maxSecretBytes  = 64
	maxAnswerBytes  = 4 << 10 // of a response that are read, so that the connection can be used again
)

// ParseSecret parses a secret: whsec_ and 24 to 64 bytes in base64.
func ParseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, "whsec_")
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(secret) < minSecretBytes || len(secret) > maxSecretBytes {
		return nil, fmt.Errorf("the secret of the webhook is not valid; must be whsec_ and %d to %d random bytes in base64, "+
			"such as the output of: echo whsec_$(openssl rand -base64 32)", minSecretBytes, maxSecretBytes)
	}
	return secret, nil
}

// CheckURL returns an error if webhooks cannot be sent to the URL.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("the URL of the webhook is not valid; must be https://HOST/PATH")
	}
	if u.User != nil {
		return errors.New("the URL of the webhook has a user name; webhooks are signed instead, so remove it")
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return errors.New("the URL of the webhook is not encrypted; must begin with https://, or have a loopback address")
	}
	return nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// NewWebhook returns a webhook. It does no I/O.
func NewWebhook(opts *WebhookOptions) (*Webhook, error) {
	if err := CheckURL(opts.URL); err != nil {
		return nil, err
	}
	if n := len(opts.Secrets); n < 1 || n > 2 {
		return nil, fmt.Errorf("the webhook has %d secrets; must be 1, or 2 while the secret is being changed", n)
	}
	w := &Webhook{url: opts.URL, timeout: opts.Timeout, attempts: opts.Attempts, first: opts.FirstPause, longest: longestPause}
	for _, text := range opts.Secrets {
		secret, err := ParseSecret(text)
		if err != nil {
			return nil, err
		}
		w.secrets = append(w.secrets, secret)
	}
	if w.timeout == 0 {
		w.timeout = defaultTimeout
	}
	if w.attempts == 0 {
		w.attempts = defaultAttempts
	}
	if w.first == 0 {
		w.first = time.Second
	}
	transport := opts.Transport
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxConnsPerHost, t.MaxResponseHeaderBytes = senders, 64<<10
		transport = t
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.client = &http.Client{Transport: transport, CheckRedirect: refuse}
	return w, nil
}

// message is a webhook that is to be sent.
type message struct {
	id   string
	kind string
	body []byte
}

func newMessage(e *Event) *message { return &message{"msg_" + rand.Text(), e.Type, e.body()} }

// Sign returns the signature of a webhook with a secret: v1, and the HMAC-SHA256 of the
// id, the timestamp and the body in base64.
func Sign(secret []byte, id string, timestamp int64, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + strconv.FormatInt(timestamp, 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// request returns the request of one attempt at the time now.
func (w *Webhook) request(ctx context.Context, m *message, now time.Time) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(m.body))
	if err != nil {
		return nil, err
	}
	signatures := make([]string, len(w.secrets))
	for i, secret := range w.secrets {
		signatures[i] = Sign(secret, m.id, now.Unix(), m.body)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Headgate")
	r.Header.Set("webhook-id", m.id)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("webhook-signature", strings.Join(signatures, " "))
	return r, nil
}

// send makes one attempt. Any status but 2xx is a failure. gone is true if the receiver
// wants no more webhooks.
func (w *Webhook) send(ctx context.Context, m *message) (gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	r, err := w.request(ctx, m, time.Now())
	if err != nil {
		return false, err
	}
	resp, err := w.client.Do(r)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) { // its text contains the URL, which may have a token
			err = wrapped.Err
		}
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswerBytes)
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode == http.StatusGone, fmt.Errorf("status %d", resp.StatusCode)
	}
	return false, nil
}

// sendAll sends webhooks until the teller is closed.
func (t *Teller) sendAll() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case m := <-t.messages:
			t.send(m)
			t.done()
		}
	}
}

// send sends a webhook, with pauses between the attempts.
func (t *Teller) send(m *message) {
	w := t.opts.Webhook
	pauses := &backoff.ExponentialBackOff{InitialInterval: w.first, MaxInterval: w.longest, Multiplier: 2, RandomizationFactor: 0.5}
	pauses.Reset()
	for attempt := 1; ; attempt++ {
		gone, err := w.send(t.ctx, m)
		if err == nil {
			t.sent.Add(1)
			return
		}
		if gone || attempt == w.attempts || t.ctx.Err() != nil {
			t.failed.Add(1)
			t.opts.Log.Warn("webhook failed", "id", m.id, "type", m.kind, "attempts", attempt, "error", err)
			return
		}
		t.retries.Add(1)
		select {
		case <-t.ctx.Done():
		case <-time.After(pauses.NextBackOff()):
		}
	}
}

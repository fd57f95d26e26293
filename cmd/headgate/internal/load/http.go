package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// httpClient sends POST /v1/check on one connection.
type httpClient struct {
	url       string
	limit     string
	policy    string
	header    http.Header
	transport *http.Transport
	body      bytes.Buffer
	answered  bool // whether the server has sent an HTTP response
}

func openHTTP(u *url.URL, opts *Options) func(context.Context) (client, error) {
	at := *u
	at.User = nil // the API has no users, and errors contain the URL
	if at.Path == "" || at.Path == "/" {
		at.Path = "/v1/check"
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if opts.Token != "" {
		header.Set("Authorization", "Bearer "+opts.Token)
	}
	return func(context.Context) (client, error) {
		transport := &http.Transport{
			DialContext: (&net.Dialer{Timeout: callTimeout}).DialContext, MaxConnsPerHost: 1, DisableCompression: true,
			ForceAttemptHTTP2: at.Scheme == "https", TLSClientConfig: opts.clientTLS(at.Hostname()),
		}
		return &httpClient{url: at.String(), limit: opts.Limit.String(), policy: opts.Policy, header: header, transport: transport}, nil
	}
}

// checkBody is the request body of a call.
type checkBody struct {
	Policy string `json:"policy,omitempty"`
	Limit  string `json:"limit,omitempty"`
	Key    string `json:"key"`
}

func (c *httpClient) check(ctx context.Context, keys []string) (allowed int, err error) {
	for _, key := range keys {
		ok, err := c.checkOne(ctx, key)
		if err != nil {
			return 0, err
		}
		if ok {
			allowed++
		}
	}
	return allowed, nil
}

func (c *httpClient) checkOne(ctx context.Context, key string) (allowed bool, err error) {
	body := checkBody{Policy: c.policy, Key: key}
	if c.policy == "" {
		body.Limit = c.limit
	}
	c.body.Reset()
	_ = json.NewEncoder(&c.body).Encode(body) // cannot fail: strings can always be encoded
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body.Bytes()))
	if err != nil {
		return false, err
	}
	r.Header = c.header // a RoundTripper does not change it
	resp, err := c.transport.RoundTrip(r)
	if err != nil {
		return false, c.explained(r.URL.Host, err)
	}
	defer resp.Body.Close()
	c.answered = true
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case err != nil:
		return false, err
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests:
		return false, fmt.Errorf("%s returned %s: %.200q", c.url, resp.Status, bytes.TrimSpace(text))
	}
	return resp.StatusCode == http.StatusOK, nil
}

// explained returns err, the error of a call. If the server at host has never sent an
// HTTP response, the error reports that the address does not speak HTTP.
func (c *httpClient) explained(host string, err error) error {
	closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	if c.answered || !closed && !strings.Contains(err.Error(), "malformed HTTP") {
		return err
	}
	return fmt.Errorf("%s does not speak HTTP: %w; for the Redis protocol, write redis://%s", host, err, host)
}

func (c *httpClient) close() { c.transport.CloseIdleConnections() }

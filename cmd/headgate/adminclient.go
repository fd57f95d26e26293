package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/service"
)

// defaultAdminAddr is the default address of the admin listener.
const defaultAdminAddr = "127.0.0.1:6070"

// maxAdminResponse is the maximum size of a response, in bytes.
const maxAdminResponse = 64 << 20

// adminClient sends requests to the admin API of a running service.
type adminClient struct {
	addr    string
	token   tokenFlag
	timeout time.Duration
	asJSON  bool
}

// flags defines the flags of all commands that use the admin API.
func (a *adminClient) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&a.addr, "admin-addr", "", "`address` of the admin API: host:port or URL (default "+defaultAdminAddr+")")
	a.token.add(f, "admin-token", "`file` with the token; or set HEADGATE_ADMIN_TOKEN")
	f.DurationVar(&a.timeout, "timeout", 10*time.Second, "maximum time to wait for the response")
	f.BoolVar(&a.asJSON, "json", false, "print the response as JSON")
	setGroup(f, "Admin API", "admin-addr", "admin-token-file", "timeout", "json")
}

// base returns the URL of the admin listener.
func (a *adminClient) base() (*url.URL, error) {
	addr := cmp.Or(a.addr, os.Getenv(service.Variable("admin-addr")), defaultAdminAddr)
	if !strings.Contains(addr, "://") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("%.100q is not the address of an admin API; must be host:port or a URL, such as %s", addr, defaultAdminAddr)
		}
		if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
			host = "127.0.0.1" // the service listens on all addresses
		}
		addr = "http://" + net.JoinHostPort(host, port)
	}
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, errors.New("the address of the admin API must be host:port or a URL without credentials, such as http://" + defaultAdminAddr)
	}
	return u, nil
}

// do sends a request and returns the response body. body is nil for a GET request.
func (a *adminClient) do(ctx context.Context, path string, body any) ([]byte, error) {
	u, err := a.base()
	if err != nil {
		return nil, err
	}
	path, u.RawQuery, _ = strings.Cut(path, "?")
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	method, sent := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		if sent, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, u.JoinPath(path).String(), bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	token, err := a.token.value()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // a RoundTripper does not follow redirects
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w; set --admin-addr to the admin listener of the service", u.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminResponse))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, adminError(resp, text)
	}
	return text, nil
}

// adminError returns the error of a response without a result.
func adminError(resp *http.Response, text []byte) error {
	var problem struct{ Detail string }
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		return fmt.Errorf("the admin API responded with %s; is this the admin listener of the service?", resp.Status)
	}
	if resp.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("%s; set HEADGATE_ADMIN_TOKEN, or use --admin-token-file", strings.TrimSuffix(problem.Detail, "; send the header field Authorization: Bearer TOKEN"))
	}
	return errors.New(problem.Detail)
}

// ask is like do, and decodes the response into out. With --json, it prints the response
// instead, and printed is true.
func (a *adminClient) ask(cmd *cobra.Command, path string, body, out any) (printed bool, err error) {
	text, err := a.do(cmd.Context(), path, body)
	if err != nil {
		return false, err
	}
	if !a.asJSON {
		return false, json.Unmarshal(text, out)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return true, err
	}
	return true, writeAll(cmd.OutOrStdout(), indented.Bytes())
}

// Package forwardauth is the API for proxies that have each request checked before they
// forward it: nginx's auth_request, Traefik's ForwardAuth, Caddy's forward_auth, and
// HAProxy with a few lines of Lua. docs/guides/proxies has a configuration for each of
// them.
//
// The proxy describes the client's request in header fields, in one of the two formats
// below. Only trusted proxies may describe requests. Fields of the other format are
// never used, so that a client cannot add to the description. If a request has fields
// of both formats, it is rejected, because the fields of one format can only be from
// the client.
//
//   - X-Forwarded-Method and X-Forwarded-Uri, with X-Forwarded-Host, X-Forwarded-Proto,
//     and the client's address in X-Forwarded-For
//   - X-Original-Method and X-Original-URI, with the host in Host, and the client's
//     address in X-Real-IP
//
// X-Forwarded-For is read from the right, as in package clientaddr: the proxy has
// written the last entry. Each earlier entry is used only if the next entry is the
// address of a trusted proxy. All other header fields are from the client and can be
// used in keys. Routes can match a field that the proxy sets or removes. A request that
// has a field twice is rejected if the field selects its route or its key.
package forwardauth

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/answerfields"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/internal/problem"
)

// Path is the URL path of the API. If a policy's name follows, as in Path + "/login",
// the policy decides the request, and the routes are ignored.
const Path = "/v1/forward-auth"

// Options are the settings of a handler. A field with its zero value has the default in
// its comment; nil options mean all defaults.
type Options struct {
	// Local allows connections from this machine (a loopback address or a unix socket)
	// to describe requests, if the engine has no TrustedProxies. If it has
	// TrustedProxies, only these are trusted. Set Local only for a listener that is not
	// reachable from other machines. Loopback addresses in X-Forwarded-For are trusted
	// only if TrustedProxies contains them.
	Local bool
	// AllowHost reports whether a request with the given Host is from a proxy, and not
	// from a browser that DNS rebinding connected to the listener. Proxies may send the
	// Host of their client. nil allows every Host.
	AllowHost func(host string) bool
	// Log is the logger for a warning when an address that is not a trusted proxy sends
	// a request. Only the first such request is logged. nil means no log.
	Log *slog.Logger
}

// Handler serves the requests of proxies. It is created with [New] and may be used
// concurrently.
type Handler struct {
	engine  *engine.Engine
	fields  *answerfields.Writer
	local   bool
	hosts   func(host string) bool
	log     *slog.Logger
	warned  atomic.Bool
	noHolds logs.Sampler // lines about requests without a hold; one a minute
	trust   atomic.Pointer[trust]
}

// New returns the forward auth API for e. The TrustedProxies in e's active
// configuration may describe requests, and their entries in X-Forwarded-For are
// trusted. New returns an error if package clientaddr does not accept these networks.
// opts may be nil.
func New(e *engine.Engine, opts *Options) (*Handler, error) {
	opts = cmp.Or(opts, &Options{})
	h := &Handler{engine: e, fields: answerfields.New(), local: opts.Local, hosts: opts.AllowHost, log: opts.Log}
	h.log = cmp.Or(h.log, slog.New(slog.DiscardHandler))
	if _, err := h.trustOf(e.ActiveConfig()); err != nil {
		return nil, err
	}
	return h, nil
}

// trustOf returns the trust for configuration s, whose routes and policies decide the
// request. The trust is created once for each configuration.
func (h *Handler) trustOf(s *engine.ActiveConfig) (*trust, error) {
	if t := h.trust.Load(); t != nil && t.generation == s.Generation() {
		return t, nil
	}
	proxies := s.TrustedProxies()
	t, err := newTrust(proxies, h.local && len(proxies) == 0)
	if err != nil {
		return nil, err
	}
	t.generation = s.Generation()
	h.trust.Store(t)
	return t, nil
}

// ServeHTTP serves one request with any method. It does not read the body. The status
// is 200 if the described request is allowed or no route matches it. The status of a
// denial is 429, or the value of the query parameter deny: 403, 429 or 503. The header
// field X-RateLimit-Decision is allow, deny, or error if no decision was made. If a
// queue allows a request with a delay, the response is sent when the delay ends. If the
// proxy disconnects earlier, the request's place in the queue is cancelled.
//
// If the request's route has a Hold, an allowed response has the token of the hold in the
// header field X-RateLimit-Hold. The application or the proxy commits it with the actual
// cost. The proxy must not send the token to the client, because it contains the keys.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := calls.Get().(*call)
	defer c.release()
	deny, refusal := denyStatus(r.URL.RawQuery)
	if refusal == nil {
		refusal = h.read(r, c)
	}
	if refusal != nil {
		refusal.write(w)
		return
	}
	if len(c.checks) == 0 {
		allow(w)
		return
	}
	token, err := c.admit(r.Context())
	if err != nil {
		h.writeError(w, c, err)
		return
	}
	if c.answer.Allowed && c.answer.Delay > 0 && !c.awaitTurn(r.Context(), w) {
		refuse(http.StatusServiceUnavailable, "the proxy did not wait for the request's turn in the queue").write(w)
		return
	}
	if h.fields.Write(w.Header(), &c.answer); c.answer.Allowed {
		if token != "" {
			w.Header()[holdField] = []string{token}
		}
		allow(w)
	} else {
		writeDenial(w, deny, &c.answer)
	}
}

// call is the memory for processing one request. It is reused for later requests.
type call struct {
	config    *engine.ActiveConfig
	described routing.Request
	charges   []routing.PolicyKey
	checks    []engine.Check
	hold      time.Duration // TTL of the hold for the request; 0 if there is none
	answer    engine.Answer
}

var calls = sync.Pool{New: func() any { return new(call) }}

// release clears c and returns it to the pool.
func (c *call) release() {
	clear(c.charges)
	clear(c.checks)
	c.config, c.described, c.charges, c.checks = nil, routing.Request{}, c.charges[:0], c.checks[:0]
	c.hold = 0
	calls.Put(c)
}

// admit charges the request, with a hold if its route requires one. It returns the
// token of the hold.
func (c *call) admit(ctx context.Context) (token string, err error) {
	if c.hold == 0 {
		return "", c.config.Admit(ctx, c.checks, &c.answer)
	}
	hold := engine.ClientHold{ID: headgate.NewHoldID(), Checks: c.checks}
	held, err := c.config.AdmitHeld(ctx, headgate.StoreClock, c.hold, &hold, &c.answer)
	if !held {
		return "", err
	}
	return hold.Token(), nil
}

// read reads the described request into c, and determines the checks for it.
func (h *Handler) read(r *http.Request, c *call) *refusal {
	c.config = h.engine.ActiveConfig()
	t, err := h.trustOf(c.config)
	if err != nil || !t.peers.Trusts(r.RemoteAddr) {
		h.warnOnce()
		return refuse(http.StatusForbidden, "the peer is not a trusted proxy; add its network to trusted_proxies")
	}
	if h.hosts != nil && !h.hosts(r.Host) {
		return refuse(http.StatusMisdirectedRequest, "the host name is not allowed with the port of this listener; configure the proxy to "+
			"send another Host, or add the name to http.allowed_hosts")
	}
	format, refusal := describe(r, &c.described)
	if refusal != nil {
		return refusal
	}
	c.described.ClientAddr = t.client(format, r.Header)
	routes := c.config.Routes()
	policy := strings.Trim(strings.TrimPrefix(r.URL.Path, Path), "/")
	if c.charges, err = routes.Select(c.charges, policy, &c.described); err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	if policy == "" {
		c.hold = routes.HoldTTL(&c.described)
	}
	if !c.described.ClientAddr.IsValid() && c.needsClient(routes) {
		return refuse(http.StatusBadRequest, "the client's address is missing or invalid; configure the proxy to set "+format.client)
	}
	for _, charge := range c.charges {
		c.checks = append(c.checks, engine.Check{Policy: charge.Policy, Key: charge.Key, Cost: 1, Composed: true})
	}
	return nil
}

// needsClient reports whether the key for at least one policy depends on the client's
// address. If the address is missing, all clients would share that key.
func (c *call) needsClient(routes *routing.Table) bool {
	known := c.described
	known.ClientAddr = netip.IPv6Unspecified()
	for _, charge := range c.charges {
		if routes.KeyOf(charge.Policy).Of(&known) != charge.Key {
			return true
		}
	}
	return false
}

// warnOnce logs that a request came from an address that is not a trusted proxy. It
// does not log the address, and it logs only on the first call.
func (h *Handler) warnOnce() {
	if h.warned.CompareAndSwap(false, true) {
		h.log.Warn("untrusted proxy rejected", "api", "forward_auth", "status", http.StatusForbidden,
			"advice", "add the proxy's network to trusted_proxies; this warning is logged once")
	}
}

var unavailable = &refusal{
	http.StatusServiceUnavailable, problem.ReducedCapacity, "the store could not decide about the request; retry later",
}

var noSlot = &refusal{
	http.StatusServiceUnavailable, problem.ReducedCapacity, "too many requests of this key are in progress; retry later",
}

// logNoHold logs that no hold was opened for a request that needs one, at most once a
// minute.
func (h *Handler) logNoHold(c *call, err error) {
	const perMinute = 1
	rejected, ok := h.noHolds.Take(time.Now().UnixNano()/60, perMinute)
	if !ok {
		return
	}
	var policies []string
	for _, charge := range c.charges {
		policies = append(policies, charge.Policy)
	}
	h.log.Warn("request without a hold rejected", "api", "forward_auth", "policies", strings.Join(policies, ", "), "error", engine.Reason(err),
		"suppressed", rejected, "advice", "increase holds.max_open of the policies, and commit the hold when a request ends")
}

// writeError writes the response for a request for which no decision was made. The
// cause is the store or the configuration, never the client.
func (h *Handler) writeError(w http.ResponseWriter, c *call, err error) {
	if engine.ErrorKindOf(err) == engine.StoreFailure {
		w.Header().Set("Retry-After", "1")
		if errors.Is(err, engine.ErrNoHold) {
			h.logNoHold(c, err)
			noSlot.write(w)
			return
		}
		unavailable.write(w)
		return
	}
	status := http.StatusBadRequest
	if engine.ErrorKindOf(err) == engine.UnknownPolicy {
		status = http.StatusNotFound
	}
	refuse(status, engine.Reason(err)).write(w)
}

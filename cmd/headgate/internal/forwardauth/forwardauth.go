// Package forwardauth is the door for proxies that ask whether a request may go ahead before they pass it on: nginx's
// auth_request, Traefik's ForwardAuth, Caddy's forward_auth, HAProxy with a few lines of Lua. docs/proxies has a file for each.
//
// The request that is decided is the one that the proxy describes, and only proxies that are trusted may describe one. There are
// two ways to say it, and each is whole: none of the fields of the other way is read, so that a client cannot add to what the
// proxy said. A request that is described in both ways is refused, because one of them can only be the client's.
//
//   - X-Forwarded-Method and X-Forwarded-Uri, with X-Forwarded-Host, X-Forwarded-Proto, and the client in X-Forwarded-For
//   - X-Original-Method and X-Original-URI, with the host in Host, and the client in X-Real-IP
//
// X-Forwarded-For is read from the right, as package clientaddr does: the last entry is the proxy's word, and entries before it
// count only as far as trusted proxies wrote them. All other fields are the client's, and keys may be made of them.
package forwardauth

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/cmd/headgate/internal/answerfields"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/internal/problem"
)

// Path is where the door is. Below it, behind a slash, stands the name of a policy that holds for the request whatever the
// routes say.
const Path = "/v1/forward-auth"

// Options are a handler's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Local lets peers on this machine describe requests, those on a loopback address or a unix socket, while the engine has no
	// TrustedProxies: whoever names proxies names all of them. It is for a door that nobody else can reach. Entries of loopback
	// addresses in X-Forwarded-For are believed only if TrustedProxies holds them.
	Local bool
	// Log hears, once, of a peer that described a request and is not trusted; nil means nobody does.
	Log *slog.Logger
}

// Handler answers proxies. It is made with [New] and may be used concurrently.
type Handler struct {
	engine *engine.Engine
	fields *answerfields.Writer
	local  bool
	log    *slog.Logger
	warned atomic.Bool
	trust  atomic.Pointer[trust]
}

// New makes the door of e: the TrustedProxies that e has in force may describe requests, and their entries in X-Forwarded-For are
// believed. It refuses networks that package clientaddr refuses. opts may be nil.
func New(e *engine.Engine, opts *Options) (*Handler, error) {
	opts = cmp.Or(opts, &Options{})
	h := &Handler{engine: e, fields: answerfields.New(), local: opts.Local, log: opts.Log}
	h.log = cmp.Or(h.log, slog.New(slog.DiscardHandler))
	if _, err := h.trustOf(e.ActiveConfig()); err != nil {
		return nil, err
	}
	return h, nil
}

// trustOf is who may describe a request that s decides: of one configuration with its routes and policies. It is made once for each.
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

// ServeHTTP answers one request, of any method; its body is not read. The answer is 200 if what is described may go ahead, also
// if no route matches it. If it is denied the answer is 429, or what the parameter deny says: 403, 429 or 503. The header says
// the rest: X-RateLimit-Decision is allow, deny, or error where nothing was decided. A request that was admitted into a queue is
// answered when its turn has come; if the proxy leaves before, its place is cancelled.
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
	if err := c.holds.Admit(r.Context(), c.checks, &c.answer); err != nil {
		h.undecided(w, err)
		return
	}
	if c.answer.Allowed && c.answer.Delay > 0 && !c.awaitTurn(r.Context(), w) {
		refuse(http.StatusServiceUnavailable, "the proxy did not wait for the request's turn").write(w)
		return
	}
	if h.fields.Write(w.Header(), &c.answer); c.answer.Allowed {
		allow(w)
	} else {
		writeDenial(w, deny, &c.answer)
	}
}

// call is the memory of one request, kept for the next.
type call struct {
	holds     *engine.ActiveConfig
	described routing.Request
	charges   []routing.PolicyKey
	checks    []engine.Check
	answer    engine.Answer
}

var calls = sync.Pool{New: func() any { return new(call) }}

// release keeps c for another request, without what this one said.
func (c *call) release() {
	clear(c.charges)
	clear(c.checks)
	c.holds, c.described, c.charges, c.checks = nil, routing.Request{}, c.charges[:0], c.checks[:0]
	calls.Put(c)
}

// read finds what the described request is to be charged.
func (h *Handler) read(r *http.Request, c *call) *refusal {
	c.holds = h.engine.ActiveConfig()
	t, err := h.trustOf(c.holds)
	if err != nil || !t.peers.Trusts(r.RemoteAddr) {
		h.warnOnce()
		return refuse(http.StatusForbidden, "what this peer says of a request is not read, as it is not a trusted proxy: "+
			"name its network in trusted_proxies")
	}
	way, refusal := describe(r, &c.described)
	if refusal != nil {
		return refusal
	}
	c.described.ClientAddr = t.client(way, r.Header)
	routes := c.holds.Routes()
	if policy := strings.Trim(strings.TrimPrefix(r.URL.Path, Path), "/"); policy != "" {
		c.charges = append(c.charges, routing.PolicyKey{Policy: policy, Key: routes.KeyOf(policy).Of(&c.described)})
	} else {
		c.charges = routes.AppendPolicyKeys(c.charges, &c.described)
	}
	if !c.described.ClientAddr.IsValid() && c.needsClient(routes) {
		return refuse(http.StatusBadRequest, "the client's address is missing, or is none: have the proxy set "+way.client)
	}
	for _, charge := range c.charges {
		c.checks = append(c.checks, engine.Check{Policy: charge.Policy, Key: charge.Key, Cost: 1})
	}
	return nil
}

// needsClient reports whether some budget would be another one if the client's address were known: all clients would share it.
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

// warnOnce says that a proxy is not trusted. It says no address.
func (h *Handler) warnOnce() {
	if h.warned.CompareAndSwap(false, true) {
		h.log.Warn("a peer asked about a request and is not a trusted proxy, so it was answered 403: name its network in " +
			"trusted_proxies; this is said once")
	}
}

var unavailable = &refusal{
	http.StatusServiceUnavailable, problem.ReducedCapacity, "whether the request may go ahead cannot be decided at the moment",
}

// undecided answers when nothing was decided. What is wrong is the store's trouble, or the configuration's: never the client's.
func (h *Handler) undecided(w http.ResponseWriter, err error) {
	if engine.ErrorKindOf(err) == engine.StoreFailure {
		w.Header().Set("Retry-After", "1")
		unavailable.write(w)
		return
	}
	status := http.StatusBadRequest
	if engine.ErrorKindOf(err) == engine.UnknownPolicy {
		status = http.StatusNotFound
	}
	refuse(status, engine.Reason(err)).write(w)
}

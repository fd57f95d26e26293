package loginguard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/internal/admission"
)

// Guard limits the attempts on one form. Create it with [New]. It may be used
// concurrently. The state of its limits and known pairs is in the store.
type Guard struct {
	opts   Options
	secret []byte
	client *clientaddr.Resolver
	store  headgate.Store
	limits map[string][]boundLimit // the bound limits of each scope
	scopes map[string]string       // the scope of each policy name
	// known has a bucket of knownParts units for each pair. A success empties the
	// bucket, which then refills within KnownFor. A pair is known while its bucket is
	// not full. One unit refills in 1/90 of KnownFor. A success of a known pair empties
	// the bucket again, so that the pair stays known for longer.
	known           *headgate.Limiter
	statusSuccesses *headgate.Limiter // limits the successes that are judged by status only

	successRun      atomic.Int64 // successes by status since the last failure
	warnedNoFailure atomic.Bool  // true once the guard has warned that no attempt fails
	// true once the guard has warned about a success without an account
	warnedNoAccount atomic.Bool
}

// boundLimit is a limit that is bound to the store.
type boundLimit struct {
	headgate.Bound
	// whether the limit allows so many attempts that a failure must end its hold:
	// otherwise a key could have more than headgate.DefaultMaxOpenHolds open holds
	endFailed bool
}

const (
	// burst, and number per hour, of successes of one account by status only
	maxStatusSuccesses = 20
	// number of successive successes by status, of all accounts, at which the guard
	// warns
	warnAfterSuccesses = 100
)

// New returns a guard with state in store, which must support holds. It returns an
// error that matches [ErrInvalidOptions] for invalid options, and the errors of
// [headgate.New] and [clientaddr.New]. It does no I/O. opts may be nil.
func New(store headgate.Store, opts *Options) (*Guard, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	client, err := clientaddr.New(o.Client)
	if err != nil {
		return nil, err
	}
	g := &Guard{opts: o, client: client, store: store, limits: make(map[string][]boundLimit), scopes: make(map[string]string)}
	if err := g.bind(store); err != nil {
		return nil, err
	}
	if err := admission.CheckHolds(store, nil, "a guard", ErrInvalidOptions); err != nil {
		return nil, err
	}
	g.secret = append([]byte(nil), o.Secret...)
	if o.Secret == nil {
		g.secret = processSecret()
		if headgate.Shared(store) {
			o.Warn("loginguard: Options.Secret is not set: limits are not shared between processes and are lost on restart; " +
				"set the same secret in all processes that share the store")
		}
	}
	return g, nil
}

// processSecret returns the random secret of this process. All guards of the process
// without Options.Secret use it, so that they can share known pairs.
var processSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // crypto/rand.Read never returns an error
	return secret
})

// outcomeTTL is the time in which the success of an attempt must be reported. Attempts
// without an outcome are failures.
const outcomeTTL = time.Minute

// bind binds all limits of the guard to the store. It does no I/O.
func (g *Guard) bind(store headgate.Store) (err error) {
	all, binder := 0, admission.Binder{Store: store}
	for _, part := range []struct {
		kind   string
		limits []headgate.Limit
	}{
		{ScopePair, g.opts.Limits.Pair},
		{ScopeAccount, g.opts.Limits.Account},
		{ScopeAddress, g.opts.Limits.Address},
		{ScopeSubnet, g.opts.Limits.Subnet},
		{ScopeTotal, g.opts.Limits.Total},
	} {
		all += len(part.limits)
		if all > headgate.MaxLimits {
			return fmt.Errorf("%w: Limits has more than %d limits in all lists together; remove some", ErrInvalidOptions, headgate.MaxLimits)
		}
		for i, limit := range part.limits {
			name := g.opts.Name + "/" + part.kind + "/" + strconv.Itoa(i)
			c, err := binder.Bind(g.policy(name, limit), "")
			if err != nil {
				return fmt.Errorf("loginguard: invalid %s limit: %w", part.kind, err)
			}
			endFailed := MaxAttempts([]headgate.Limit{limit}, outcomeTTL) > headgate.DefaultMaxOpenHolds
			g.limits[part.kind] = append(g.limits[part.kind], boundLimit{c.Limits[0].Bound, endFailed})
			g.scopes[name] = part.kind
		}
	}
	part := (g.opts.KnownFor / knownParts).Truncate(time.Microsecond)
	known := headgate.Limit{Rate: 1, Period: part, Burst: knownParts}
	if g.known, err = headgate.New(store, g.policy(g.opts.KnownBy+"/known", known), nil); err != nil {
		return err
	}
	limit := headgate.Limit{Rate: maxStatusSuccesses, Period: time.Hour}
	g.statusSuccesses, err = headgate.New(store, g.policy(g.opts.Name+"/believed", limit), nil)
	return err
}

func (g *Guard) policy(name string, limit headgate.Limit) headgate.Policy {
	return headgate.Policy{
		Name: name, Limits: []headgate.Limit{limit}, OnStoreError: g.opts.OnStoreError,
		Holds: headgate.HoldSettings{MaxOpen: headgate.MaxOpenHolds},
	}
}

// digest returns the keyed hash of the parts as 32 hexadecimal digits. The input of the
// hash includes the length of each part, so that different lists of parts never have
// the same input.
func (g *Guard) digest(parts ...string) string {
	h := hmac.New(sha256.New, g.secret)
	for _, p := range parts {
		// hash.Hash.Write never returns an error
		_, _ = h.Write(strconv.AppendInt(nil, int64(len(p)), 10))
		_, _ = h.Write([]byte{':'})
		_, _ = h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// address returns the block of addresses that the limits treat as one address: addr
// itself for IPv4, the network of V6Address bits for IPv6.
func (g *Guard) address(addr netip.Addr) netip.Prefix {
	return clientaddr.Group(addr, g.opts.V6Address)
}

// subnet returns the network of addr: 24 bits for IPv4, V6Subnet bits for IPv6.
func (g *Guard) subnet(addr netip.Addr) netip.Prefix {
	p := clientaddr.Group(addr, g.opts.V6Subnet)
	if p.Addr().Is4() {
		p, _ = p.Addr().Prefix(24) // Prefix never returns an error here: an IPv4 address has 32 bits
	}
	return p
}

// isAllowlisted reports whether addr is in Options.Allow.
func (g *Guard) isAllowlisted(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(g.opts.Allow, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func prefixText(p netip.Prefix) string { return string(clientaddr.AppendKey(nil, p)) }

func (g *Guard) observe(e Event) {
	if g.opts.Observer != nil {
		e.Form = g.opts.Name
		g.opts.Observer.ObserveAttempt(e)
	}
}

// checkHandler calls Options.Warn about two likely mistakes: a handler on which no
// attempt fails, and a success without an account. certain is false if the outcome was
// judged by the response status only.
func (g *Guard) checkHandler(o Outcome, certain bool, account string) {
	switch {
	case account == "":
		if o == Success && (g.opts.Account != nil || len(g.opts.Fields) > 0) && !g.warnedNoAccount.Swap(true) {
			g.opts.Warn("loginguard: no account found in a successful request, so only its address is limited; " +
				"set Options.Fields to the form's field or set Options.Account, and protect the form's POST route only")
		}
	case certain:
	case o != Success:
		g.successRun.Store(0)
	case g.successRun.Add(1) >= warnAfterSuccesses && !g.warnedNoFailure.Swap(true):
		g.opts.Warn("loginguard: no failed attempt in the last 100, judged by response status; if the handler responds " +
			"with 200 or a redirect to a wrong guess, call loginguard.Failed there or set Options.Outcome, because " +
			"almost nothing is limited until then")
	}
}

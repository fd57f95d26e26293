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

// Guard limits the tries on one form. It is made with [New] and may be used concurrently. It holds no state but in the store.
type Guard struct {
	opts   Options
	secret []byte
	client *clientaddr.Resolver
	store  headgate.Store
	limits map[string][]headgate.Bound // by pair, account, …: one for each limit
	scopes  map[string]string           // the name of a limit's policy → pair, account, …
	// known holds the pairs that are known, as buckets of knownParts units that a success empties: whatever is missing says that
	// there was one in the last KnownFor. Units of a 90th part each let a later success lengthen it.
	known    *headgate.Limiter
	statusSuccesses *headgate.Limiter // successes by their status, of an account

	successRun        atomic.Int64 // successes by their status since anything failed
	warnedNoFailure       atomic.Bool  // that nothing fails
	warnedNoAccount atomic.Bool  // that no account was found
}

const (
	maxStatusSuccesses = 20  // successes of one account that their status alone makes, and as many at once
	warnAfterSuccesses  = 100 // of all accounts, without one failure, that are warned of
)

// New makes a guard over store. It refuses options that cannot work, with [ErrInvalidOptions], and what [headgate.New] and
// [clientaddr.New] refuse. It does no I/O. opts may be nil.
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
	g := &Guard{opts: o, client: client, store: store, limits: make(map[string][]headgate.Bound), scopes: make(map[string]string)}
	if err := g.bind(store); err != nil {
		return nil, err
	}
	g.secret = append([]byte(nil), o.Secret...)
	if o.Secret == nil {
		g.secret = processSecret()
		if headgate.Shared(store) {
			o.Warn("loginguard: Secret is not set, so every process has limits of its own, and forgets them when it ends; " +
				"processes that share a store need the same secret")
		}
	}
	return g, nil
}

// processSecret is one for all guards of this process, so that they can share known pairs.
var processSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // crypto/rand ends the program rather than fail
	return secret
})

// bind makes the limiters.
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
			return fmt.Errorf("%w: Limits has more than %d limits together", ErrInvalidOptions, headgate.MaxLimits)
		}
		for i, limit := range part.limits {
			name := g.opts.Name + "/" + part.kind + "/" + strconv.Itoa(i)
			c, err := binder.Bind(g.policy(name, limit), "")
			if err != nil {
				return fmt.Errorf("loginguard: limits of the %s: %w", part.kind, err)
			}
			g.limits[part.kind] = append(g.limits[part.kind], c.Limits[0].Bound)
			g.scopes[name] = part.kind
		}
	}
	part := (g.opts.KnownFor / knownParts).Truncate(time.Microsecond)
	known := headgate.Limit{Rate: 1, Period: part, Burst: knownParts}
	if g.known, err = headgate.New(store, g.policy(g.opts.KnownBy+"/known", known), nil); err != nil {
		return err
	}
	believed := headgate.Limit{Rate: maxStatusSuccesses, Period: time.Hour}
	g.statusSuccesses, err = headgate.New(store, g.policy(g.opts.Name+"/believed", believed), nil)
	return err
}

func (g *Guard) policy(name string, limit headgate.Limit) headgate.Policy {
	return headgate.Policy{Name: name, Limits: []headgate.Limit{limit}, OnStoreError: g.opts.OnStoreError}
}

// digest is the keyed hash of several parts, as 32 hexadecimal digits. Parts of different number or length never meet.
func (g *Guard) digest(parts ...string) string {
	h := hmac.New(sha256.New, g.secret)
	for _, p := range parts {
		_, _ = h.Write(strconv.AppendInt(nil, int64(len(p)), 10)) // a hash never fails
		_, _ = h.Write([]byte{':'})
		_, _ = h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// address and subnet are the blocks that addr counts as.
func (g *Guard) address(addr netip.Addr) netip.Prefix {
	return clientaddr.Group(addr, g.opts.V6Address)
}

func (g *Guard) subnet(addr netip.Addr) netip.Prefix {
	p := clientaddr.Group(addr, g.opts.V6Subnet)
	if p.Addr().Is4() {
		p, _ = p.Addr().Prefix(24) // 24 bits are always there
	}
	return p
}

// allows reports whether addr is in the list of those that are not limited.
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

// count keeps an eye on a handler on which nothing ever fails, and on successes for which no account was found.
func (g *Guard) checkHandler(o Outcome, certain bool, account string) {
	switch {
	case account == "":
		if o == Success && (g.opts.Account != nil || len(g.opts.Fields) > 0) && !g.warnedNoAccount.Swap(true) {
			g.opts.Warn("loginguard: a try succeeded for which no account was found, so it was limited by its address alone: name the " +
				"form's field in Options.Fields, or set Options.Account; and mount the guard on the form's POST alone")
		}
	case certain:
	case o != Success:
		g.successRun.Store(0)
	case g.successRun.Add(1) >= warnAfterSuccesses && !g.warnedNoFailure.Swap(true):
		g.opts.Warn("loginguard: the last 100 tries succeeded, by the status of the handler's answers; if it answers 200 or " +
			"redirects when a guess is wrong, it must call loginguard.Failed, or Options.Outcome must tell: nearly nothing is " +
			"limited until then")
	}
}

package rlsapi

import (
	"fmt"
	"math"
	"strconv"
	"sync"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/keytext"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// The words of envoyproxy/ratelimit.
var (
	errNoDomain      = status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	errNoDescriptors = status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	errNoConfig      = status.Error(codes.Unavailable, "no rate limit configuration loaded")
)

// part is what becomes of a descriptor.
type part uint8

const (
	unmatched part = iota
	unlimited
	counted // it is charged together with others
	watched // it is charged by itself, and has no say
	refunded
)

// item is one descriptor of a request.
type item struct {
	part    part
	quota   bool
	blocked bool // nothing at all is allowed
	rule    *envoyconfig.Rule
	cost    int64
	hits    uint64 // as statistics count them
	limits  []envoyconfig.Limit
	shown   []*pb.RateLimitResponse_RateLimit
	counter *Counter
	keyEnd  int // in the keys of all descriptors; where it begins, the one before ends
	key     string

	decisions []headgate.Decision // one for each limit
	over      bool
	beyond    bool  // it is charged under one hit more than its limit has
	denied    bool  // by the last answer, which need not mean that it is over
	spent     int64 // of its first limit, after the last answer
	ahead     int64 // what others of the request were to spend before it, if it is over
	place     int   // in the request

	one   [1]envoyconfig.Limit // of a descriptor that brings its own
	own   engine.Own
	oneOf [1]*pb.RateLimitResponse_RateLimit
	first [1]headgate.Decision
}

// call is the memory of one request, kept for the next.
type call struct {
	watch     stopwatch
	holds     *rules
	snapshot  *engine.Snapshot
	domain    *envoyconfig.Domain
	now       headgate.Instant
	matcher   envoyconfig.Matcher
	entries   []envoyconfig.Entry
	items     []item
	keys      []byte
	name      []byte
	order     []*item // those that were asked for last, in the order in which they were
	checks    []engine.Check
	answer    engine.Answer
	unsure    bool // some were denied of which it is not certain that they are over
	spared    bool // nothing was charged but what was given back, as the request is over
	freeQuota bool // one of those that deny only together passes in any case
}

var calls = sync.Pool{New: func() any { return &call{watch: stopwatch{lane: stopwatches.Add(1)}} }}

// release keeps c for another request, without what this one held.
func (c *call) release() {
	c.matcher.Forget()
	clear(c.entries[:cap(c.entries)])
	clear(c.items)
	clear(c.order[:cap(c.order)])
	clear(c.checks[:cap(c.checks)])
	c.holds, c.snapshot, c.domain, c.freeQuota = nil, nil, nil, false
	if cap(c.keys) <= 64<<10 {
		calls.Put(c)
	}
}

// check refuses what is too much, before anything is made of it.
func (h *Handler) check(req *pb.RateLimitRequest) error {
	switch {
	case req.GetDomain() == "":
		return errNoDomain
	case len(req.GetDescriptors()) == 0:
		return errNoDescriptors
	case len(req.GetDomain()) > h.opts.MaxEntryBytes:
		return refuse("the domain has %d bytes; accepted are at most %d", len(req.GetDomain()), h.opts.MaxEntryBytes)
	case len(req.GetDescriptors()) > h.opts.MaxDescriptors:
		return refuse("%d descriptors in one request; accepted are at most %d", len(req.GetDescriptors()), h.opts.MaxDescriptors)
	}
	for i, d := range req.GetDescriptors() {
		if n := len(d.GetEntries()); n > h.opts.MaxEntries {
			return refuse("descriptor %d has %d entries; accepted are at most %d", i+1, n, h.opts.MaxEntries)
		}
		for _, e := range d.GetEntries() {
			if n := max(len(e.GetKey()), len(e.GetValue())); n > h.opts.MaxEntryBytes {
				return refuse("descriptor %d: an entry has %d bytes; accepted are at most %d", i+1, n, h.opts.MaxEntryBytes)
			}
		}
	}
	return nil
}

func refuse(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf(format, args...))
}

// resolve finds what holds for every descriptor.
func (h *Handler) resolve(req *pb.RateLimitRequest, c *call) error {
	n := len(req.GetDescriptors())
	if cap(c.items) < n {
		c.items = make([]item, n)
	}
	c.items, c.keys = c.items[:n], c.keys[:0]
	c.domain = c.holds.config.Domain(req.GetDomain())
	if c.domain == nil {
		h.stats.domainNotFound(req.GetDomain())
		return nil
	}
	for i, d := range req.GetDescriptors() {
		it := &c.items[i]
		if err := h.resolveOne(req, d, it, c); err != nil {
			return status.Error(codes.InvalidArgument, "descriptor "+strconv.Itoa(i+1)+": "+err.Error())
		}
		it.keyEnd = len(c.keys)
	}
	c.replace()
	h.assign(c)
	return nil
}

func (h *Handler) resolveOne(req *pb.RateLimitRequest, d *ratelimit.RateLimitDescriptor, it *item, c *call) error {
	c.entries = c.entries[:0]
	for _, e := range d.GetEntries() {
		c.entries = append(c.entries, envoyconfig.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	hits := hitsOf(req, d)
	it.cost, it.hits = int64(min(hits, mostCost)), min(hits, mostCounted)
	if d.GetLimit() != nil {
		return h.override(req, d, it, c)
	}
	rule := c.matcher.Match(c.domain, c.entries)
	if rule == nil {
		return nil
	}
	of := &c.holds.ready[rule.Index]
	it.rule, it.limits, it.shown, it.counter = rule, rule.Limits, of.limits, of.counter
	if it.counter == nil {
		c.name = c.matcher.AppendStat(c.name[:0], rule)
		it.counter = h.stats.named(c.name, rule.Path)
	}
	it.part = counted
	switch {
	case rule.Unlimited:
		it.part = unlimited
	case d.GetIsNegativeHits():
		it.giveBack()
	case rule.Shadow:
		it.part = watched
	}
	if of.beyond != nil && it.part != refunded {
		it.limits, it.beyond = of.beyond, true
	}
	c.addKey(req.GetDomain(), true)
	return nil
}

// override is a descriptor that brings its own limit.
func (h *Handler) override(req *pb.RateLimitRequest, d *ratelimit.RateLimitDescriptor, it *item, c *call) error {
	unit := envoyconfig.Unit(d.GetLimit().GetUnit())
	period := unit.Length()
	if period == 0 {
		return fmt.Errorf("the unit of its limit is %d; accepted are 1 (second) to 6 (year), and 7 (week)", d.GetLimit().GetUnit())
	}
	it.one[0], it.own = envoyconfig.MakeLimit(d.GetLimit().GetRequestsPerUnit(), period)
	if it.one[0].Requests > 0 {
		it.one[0].Own = &it.own
	}
	it.oneOf[0] = limitOf("", &it.one[0])
	it.limits, it.shown = it.one[:], it.oneOf[:]
	it.part = counted
	if d.GetIsNegativeHits() {
		it.giveBack()
	} else if it.beyond = h.opts.Charge == Each && goesBeyond(it.limits); it.beyond {
		it.own.Limit.Rate++
	}
	c.name = envoyconfig.AppendPath(c.name[:0], req.GetDomain(), c.entries)
	it.counter = h.stats.named(c.name, req.GetDomain())
	c.addKey(req.GetDomain(), false)
	return nil
}

// giveBack makes a descriptor one of negative hits. Where nothing is allowed any more something may have been, so that there is
// something to give back: it counts in that window, by another limit.
func (it *item) giveBack() {
	it.part = refunded
	if len(it.limits) == 1 && it.limits[0].Own == nil {
		it.one[0], it.own = envoyconfig.MakeLimit(1, it.limits[0].Period)
		it.one[0].Requests, it.one[0].Own = 0, &it.own
		it.limits = it.one[:]
	}
}

const (
	// mostCost is more than any limit: what asks for it or for more is never admitted, and gives everything back.
	mostCost = headgate.MaxUnits + 1
	// mostCounted is how many hits of one descriptor statistics count at most, so that no counter comes to its end.
	mostCounted = math.MaxUint32
)

// hitsOf is how many hits a descriptor asks for: its own, also 0, or those of the request, of which 0 means 1.
func hitsOf(req *pb.RateLimitRequest, d *ratelimit.RateLimitDescriptor) uint64 {
	if own := d.GetHitsAddend(); own != nil {
		return own.GetValue()
	}
	return max(uint64(req.GetHitsAddend()), 1)
}

// addKey says whose budget it is: the domain and all entries, each with its length before it, or a hash of them if they are long.
func (c *call) addKey(domain string, matched bool) {
	begin := len(c.keys)
	c.keys = appendPart(c.keys, domain)
	for i := range c.entries {
		value := c.entries[i].Value
		if matched {
			value = c.matcher.Value(i)
		}
		c.keys = appendPart(appendPart(c.keys, c.entries[i].Key), value)
	}
	c.keys = keytext.Bounded(c.keys, begin)
}

func appendPart(dst []byte, part string) []byte {
	return append(append(strconv.AppendInt(dst, int64(len(part)), 10), ':'), part...)
}

// replace forgets rules that another rule of the request takes the place of.
func (c *call) replace() {
	for i := range c.items {
		if c.items[i].rule == nil {
			continue
		}
		for _, name := range c.items[i].rule.Replaces {
			c.forget(name)
		}
	}
	for i := range c.items {
		if it := &c.items[i]; it.part == unmatched {
			it.rule, it.limits, it.shown, it.counter = nil, nil, nil, nil
		}
	}
}

// forget leaves the rules in place, as they may replace others in turn.
func (c *call) forget(name string) {
	for i := range c.items {
		if it := &c.items[i]; it.rule != nil && it.part != unlimited && it.rule.Name == name {
			it.part = unmatched
		}
	}
}

// assign gives every item its key and its place among the decisions.
func (h *Handler) assign(c *call) {
	keys, from := string(c.keys), 0
	for i := range c.items {
		it := &c.items[i]
		it.place = i
		it.key, from = keys[from:it.keyEnd], it.keyEnd
		it.quota = it.part != unlimited && (h.opts.Quota || it.rule != nil && it.rule.Quota)
		it.blocked = len(it.limits) == 1 && it.limits[0].Own == nil
		c.freeQuota = c.freeQuota || it.quota && it.part != counted
		if n := len(it.limits); n == 1 {
			it.decisions = it.first[:]
		} else if n > 1 {
			it.decisions = make([]headgate.Decision, n)
		}
	}
}

package main

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/llmusage"
)

// limits are the limits of each tenant. A request is charged to all of them or to none.
type limits struct {
	all    []*headgate.Limiter // in the order of the costs
	writer *httpfields.Writer
	fields *httpfields.Set
}

// units are what the limits count. The header fields report the first two.
var units = []httpfields.Unit{httpfields.Requests, httpfields.Tokens, "micro-dollars", "streams"}

// [snippet limits]

// The limits of each tenant.
var policies = []headgate.Policy{
	headgate.MustNamedPolicy("requests", "60/1m"),
	headgate.MustNamedPolicy("tokens", "60000/1m"),
	headgate.MustNamedPolicy("spending", "50000000/month"), // 50 dollars, in millionths
	headgate.MustNamedPolicy("streams", "8 concurrent"),
}

// amountsOf returns what a request with the estimated usage holds under each limit.
func amountsOf(u llmusage.Usage) []int64 { return []int64{1, u.Total(), price(u), 1} }

// costsOf returns what a request has cost when it has ended: its stream is free again.
func costsOf(u llmusage.Usage) []int64 { return []int64{1, u.Total(), price(u), 0} }

// [end limits]

// Prices of a model in millionths of a dollar per 1,000 tokens.
const (
	inputPrice     = 2_500
	cacheReadPrice = 1_250
	outputPrice    = 10_000
)

// price returns the price of an answer in millionths of a dollar, rounded up.
func price(u llmusage.Usage) int64 {
	return ((u.Input+u.CacheWrite)*inputPrice + u.CacheRead*cacheReadPrice + u.Output*outputPrice + 999) / 1000
}

func newLimits(store headgate.Store, policies []headgate.Policy) (*limits, error) {
	l := &limits{}
	var reported []httpfields.Limit
	for i, p := range policies {
		limiter, err := headgate.New(store, p, nil)
		if err != nil {
			return nil, err
		}
		l.all = append(l.all, limiter)
		reported = append(reported, httpfields.Limit{Name: p.Name, Limit: p.Limits[0], Algorithm: p.Algorithm, Unit: units[i]})
	}
	var err error
	l.writer, err = httpfields.New(&httpfields.Options{Dialects: []httpfields.Dialect{httpfields.OpenAI}})
	if err != nil {
		return nil, err
	}
	l.fields = l.writer.Set(reported...)
	return l, nil
}

// holdTTL is the time after which a request is given up whose gateway has died.
const holdTTL = time.Minute

// hold charges the estimate of a request to all limits, or to none.
func (l *limits) hold(ctx context.Context, now time.Time, tenant string, estimate llmusage.Usage) (*headgate.Hold, error) {
	var checks []headgate.Check
	for i, cost := range amountsOf(estimate) {
		checks = append(checks, headgate.Check{Limiter: l.all[i], Key: tenant, Cost: cost})
	}
	return headgate.HoldAllAt(ctx, now, &headgate.HoldOptions{TTL: holdTTL}, checks...)
}

// decisions returns what each limit decides about the given costs.
func (l *limits) decisions(ctx context.Context, now time.Time, tenant string, costs []int64) ([]headgate.Decision, error) {
	all := make([]headgate.Decision, len(l.all))
	for i, limiter := range l.all {
		d, err := limiter.PeekAt(ctx, now, tenant, costs[i])
		if err != nil {
			return nil, err
		}
		all[i] = d
	}
	return all, nil
}

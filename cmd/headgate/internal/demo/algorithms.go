package demo

import (
	"cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// words is the description of an algorithm on the page.
type words struct {
	Name    headgate.Algorithm
	Title   string
	Short   string // title for a small chart
	Summary string // how the algorithm works, in a few words
	Use     string // what the algorithm is the right choice for
	Bound   string // how many requests the algorithm allows at most
	Denied  string // what a client observes that sends too much
	Memory  string // bytes for each key in the in-memory store
}

// descriptions returns the descriptions of all algorithms, in the order of package
// algo.
func descriptions() []words {
	said := map[headgate.Algorithm]words{
		headgate.TokenBucket: {
			Title: "Token bucket", Short: "Token bucket", Summary: "Refills continuously, saves up bursts.",
			Use:    "nearly everything: APIs, and clients that send bursts but are moderate on average",
			Bound:  "burst + s · rate / period in any span s",
			Denied: "allowed again one by one, soon",
		},
		headgate.TokenBucketInterval: {
			Title: "Token bucket by interval", Short: "By interval", Summary: "Refills completely, every period.",
			Use:    "quotas of the kind “10 more every minute”",
			Bound:  "burst, plus rate for each interval that ends",
			Denied: "waits for the end of the interval",
		},
		headgate.FixedWindow: {
			Title: "Fixed window", Short: "Fixed window", Summary: "Counts per window, then from zero.",
			Use:    "quotas that reset at a known time",
			Bound:  "rate in a window, up to twice around its end",
			Denied: "waits for the end of the window",
		},
		headgate.SlidingLog: {
			Title: "Sliding log", Short: "Sliding log", Summary: "Remembers each request for a period.",
			Use:    "“never more than N in any period”, with N of a few hundred",
			Bound:  "rate in any period, exactly",
			Denied: "each unit returns one period after it was spent",
			Memory: "128 bytes + 16 for each request",
		},
		headgate.SlidingWindow: {
			Title: "Sliding window", Short: "Sliding window", Summary: "Two counters; the older one fades.",
			Use:    "much like the sliding log, for a large N",
			Bound:  "rate · (1 + s / period) in any span s up to a period",
			Denied: "allowed again one by one, as the old window counts less",
		},
		headgate.LeakyBucket: {
			Title: "Leaky bucket", Short: "Leaky bucket", Summary: "Queues requests, releases them evenly.",
			Use:    "requests that you send, to a receiver that must not see bursts",
			Bound:  "evenly spaced, after the delays",
			Denied: "delayed first; denied only when the queue is full",
		},
	}
	var all []words
	for _, name := range algorithms() {
		w, ok := said[name]
		if ok {
			w.Memory = cmp.Or(w.Memory, "38 bytes")
		} else {
			w = words{Title: string(name), Short: string(name), Summary: summaryOfRefill[name.Refill()]}
		}
		w.Name = name
		all = append(all, w)
	}
	return all
}

// summaryOfRefill has the summaries of algorithms that have no words of their own, by
// the kind of refill.
var summaryOfRefill = map[headgate.Refill]string{
	headgate.RefillContinuous: "Refills at a constant rate.",
	headgate.RefillStepped:    "Refills at the end of each period.",
	headgate.RefillWindow:     "Counts in windows of one period.",
}

// algorithms returns the names of all algorithms on the page, in the order of package
// algo. Under a limit with a period, an algorithm with a calendar decides like a fixed
// window.
func algorithms() []headgate.Algorithm {
	var names []headgate.Algorithm
	for _, a := range algo.Rates() {
		if !a.Name.HasCalendar() {
			names = append(names, a.Name)
		}
	}
	return names
}

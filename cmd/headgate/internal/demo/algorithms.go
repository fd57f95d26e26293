package demo

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// words is the description of an algorithm on the page.
type words struct {
	Name    headgate.Algorithm
	Title   string
	Summary string // how the algorithm works, in one line
	Bound   string // how many requests the algorithm allows at most
}

// descriptions returns the descriptions of all algorithms, in the order of package
// algo.
func descriptions() []words {
	said := map[headgate.Algorithm]words{
		headgate.TokenBucket: {
			Title: "Token bucket", Summary: "Refills continuously at a constant rate.",
			Bound: "burst + s · rate / period in any span s",
		},
		headgate.TokenBucketInterval: {
			Title: "Token bucket, by interval", Summary: "Refills a full rate at the end of each interval.",
			Bound: "burst, plus rate for each interval that ends",
		},
		headgate.FixedWindow: {
			Title: "Fixed window", Summary: "Counts within a window; the count restarts at its end.",
			Bound: "rate in a window, up to twice around its end",
		},
		headgate.SlidingLog: {
			Title: "Sliding log", Summary: "Remembers every request for exactly one period.",
			Bound: "rate in any period, exactly",
		},
		headgate.SlidingWindow: {
			Title: "Sliding window", Summary: "Two counters; the weight of the previous window decreases.",
			Bound: "rate · (1 + s / period) in any span s up to a period",
		},
		headgate.LeakyBucket: {
			Title: "Leaky bucket", Summary: "A queue: admits requests and returns a delay for each.",
			Bound: "evenly spaced, after the delays",
		},
	}
	var all []words
	for _, a := range algo.All() {
		w, ok := said[a.Name]
		if !ok {
			w = words{Title: string(a.Name), Summary: summaryOfRefill[a.Name.Refill()]}
		}
		w.Name = a.Name
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

// algorithms returns the names of all algorithms, in the order of package algo.
func algorithms() []headgate.Algorithm {
	var names []headgate.Algorithm
	for _, a := range algo.All() {
		names = append(names, a.Name)
	}
	return names
}

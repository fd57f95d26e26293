package demo

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// words are what the page says of an algorithm.
type words struct {
	Name  headgate.Algorithm
	Title string
	Says  string // how it works, in a line
	Bound string // what it guarantees
}

// described has words for every algorithm, in the order of the house.
func described() []words {
	said := map[headgate.Algorithm]words{
		headgate.TokenBucket: {
			Title: "Token bucket", Says: "Fills all the time, a drop for every fraction of the period.",
			Bound: "burst + s · rate / period in any span s",
		},
		headgate.TokenBucketInterval: {
			Title: "Token bucket, by interval", Says: "Fills by a whole rate at the end of each interval.",
			Bound: "burst, and a rate more with each interval that ends",
		},
		headgate.FixedWindow: {
			Title: "Fixed window", Says: "Counts from edge to edge, and forgets all at the edge.",
			Bound: "rate in a window, twice that around an edge",
		},
		headgate.SlidingLog: {
			Title: "Sliding log", Says: "Remembers every request for exactly one period.",
			Bound: "rate in any period, exactly",
		},
		headgate.SlidingWindow: {
			Title: "Sliding window", Says: "Two counters; the last window fades as this one goes on.",
			Bound: "rate · (1 + s / period) in any span s up to a period",
		},
		headgate.LeakyBucket: {
			Title: "Leaky bucket", Says: "A queue: admits, and says how long to hold each request.",
			Bound: "evenly spaced, once each has waited for its delay",
		},
	}
	var all []words
	for _, a := range algo.All() {
		w, ok := said[a.Name]
		if !ok {
			w = words{Title: string(a.Name), Says: saysOfKind[a.Name.Refill()]}
		}
		w.Name = a.Name
		all = append(all, w)
	}
	return all
}

// saysOfKind is how an algorithm works for which there are no words of its own.
var saysOfKind = map[headgate.Refill]string{
	headgate.RefillContinuous: "Refills at a constant rate.",
	headgate.RefillStepped:    "Refills at the end of each period.",
	headgate.RefillWindow:     "Counts in windows of one period.",
}

// algorithms are the names of all that there are.
func algorithms() []headgate.Algorithm {
	var names []headgate.Algorithm
	for _, a := range algo.All() {
		names = append(names, a.Name)
	}
	return names
}

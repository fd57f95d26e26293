package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// conclude sets the result of the scenario: a headline, and details on a second line.
// The function text computes it from the recorded decisions. It returns an empty text
// if too few requests were decided.
func (p *player) conclude(text func(j *journal) string) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.result = text(&p.s.journal)
	p.s.stateVersion++
}

// mostResult compares the most units that each algorithm admitted within one period
// with the limit.
func mostResult(s Settings) func(*journal) string {
	return func(j *journal) string {
		most := j.counts(0, func(c *tally) int64 { return c.peak.most })
		highest := slices.Max(most)
		if highest == 0 {
			return ""
		}
		period := seconds(s.PeriodMS) + " s"
		if highest <= s.Rate {
			return fmt.Sprintf("No algorithm allowed more than %d in any %s.\n", s.Rate, period)
		}
		return fmt.Sprintf("%s allowed %d requests within %s: %s the limit of %d.\nMost in any %s for the others: %s.",
			named(most, highest), highest, period, times(highest, s.Rate), s.Rate, period, grouped(most, highest))
	}
}

// times expresses n as a multiple of limit.
func times(n, limit int64) string {
	if n == 2*limit {
		return "twice"
	}
	return fmt.Sprintf("%.1f times", float64(n)/float64(limit))
}

// burstResult compares how many of n simultaneous requests each algorithm allowed.
// before is the number of requests that it had allowed before.
func burstResult(n int, before []int64) func(*journal) string {
	return func(j *journal) string {
		allowed := j.counts(0, func(c *tally) int64 { return c.allowed })
		for i := range allowed {
			allowed[i] -= before[i]
		}
		highest := slices.Max(allowed)
		return fmt.Sprintf("%s allowed %d of %d simultaneous requests after the pause.\nThe others: %s.",
			named(allowed, highest), highest, n, grouped(allowed, highest))
	}
}

// serversResult compares one store for all servers with a store for each.
func serversResult(j *journal) string {
	allowed := func(c *tally) int64 { return c.allowed }
	shared, separate := j.counts(0, allowed), j.counts(1, allowed)
	if slices.Min(shared) == 0 {
		return ""
	}
	return fmt.Sprintf("With separate stores, two servers allowed %.1f times as many requests as with one store.\n"+
		"Of %d requests, one store allowed %s, separate stores %s.",
		float64(sum(separate))/float64(sum(shared)), j.seq/2, fromTo(shared), fromTo(separate))
}

// clientsResult compares the denials of two clients.
func clientsResult(first, second string) func(*journal) string {
	return func(j *journal) string {
		denied := func(c *tally) int64 { return c.denied }
		allowed := func(c *tally) int64 { return c.allowed }
		if sum(j.counts(0, allowed)) == 0 {
			return ""
		}
		return fmt.Sprintf("%s: %s denied. %s: %s denied.\nAllowed for each algorithm: %s %s, %s %s.",
			first, fromTo(j.counts(0, denied)), second, fromTo(j.counts(1, denied)),
			strings.ToLower(first), fromTo(j.counts(0, allowed)), strings.ToLower(second), fromTo(j.counts(1, allowed)))
	}
}

// counts returns a number for each algorithm of a track.
func (j *journal) counts(track int, count func(*tally) int64) []int64 {
	var all []int64
	for i := range j.tallies[track] {
		all = append(all, count(&j.tallies[track][i]))
	}
	return all
}

// named returns the titles of the algorithms that have a count.
func named(counts []int64, count int64) string {
	var titles []string
	all := descriptions()
	for i, n := range counts {
		if n == count {
			titles = append(titles, all[i].Title)
		}
	}
	last := len(titles) - 1
	for i := 1; i <= last; i++ {
		titles[i] = strings.ToLower(titles[i][:1]) + titles[i][1:]
	}
	if last < 1 {
		return strings.Join(titles, "")
	}
	return strings.Join(titles[:last], ", ") + " and " + titles[last]
}

// grouped returns the titles of the algorithms by count, highest first, without those
// that have the count except.
func grouped(counts []int64, except int64) string {
	distinct := make(map[int64]bool)
	for _, n := range counts {
		distinct[n] = true
	}
	delete(distinct, except)
	if len(distinct) == 0 {
		return "none"
	}
	var groups []string
	for _, n := range slices.SortedFunc(maps.Keys(distinct), func(a, b int64) int { return cmp.Compare(b, a) }) {
		groups = append(groups, fmt.Sprintf("%s %d", named(counts, n), n))
	}
	return strings.Join(groups, "; ")
}

func fromTo(counts []int64) string {
	least, most := slices.Min(counts), slices.Max(counts)
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

func sum(counts []int64) (total int64) {
	for _, n := range counts {
		total += n
	}
	return total
}

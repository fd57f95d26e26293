package demo

import "time"

// peak finds the most units that one gate admitted within any one period. A delayed
// request counts at the time at which it may proceed.
//
// The store's clock decides, and this process sees only the times before and after each
// decision. peak counts requests together only if they certainly fall into one period:
// from the time before the first decision to the time after the last one. It never
// reports more than the store admitted within a period by its own clock.
type peak struct {
	period  int64 // in µs
	entries []admission
	units   int64 // sum of entries
	most    int64
}

// admission is a number of units that proceeded between two times, in µs since the
// session began.
type admission struct{ from, to, units int64 }

// maxAdmissions bounds the entries of a peak: admissions that are closer together than
// this share of a period are one entry.
const maxAdmissions = 1000

// add records that units proceeded between from and to. It discards what a previous
// period has recorded.
func (p *peak) add(period time.Duration, from, to, units int64) {
	if us := period.Microseconds(); us != p.period {
		*p = peak{period: us}
	}
	if n := len(p.entries); n > 0 && (to-p.entries[n-1].from < p.period/maxAdmissions || from < p.entries[n-1].from) {
		last := &p.entries[n-1]
		last.from, last.to, last.units = min(last.from, from), max(last.to, to), last.units+units
		to = last.to
	} else {
		p.entries = append(p.entries, admission{from, to, units})
	}
	p.units += units
	for len(p.entries) > 1 && to-p.entries[0].from >= p.period {
		p.units -= p.entries[0].units
		p.entries = p.entries[1:]
	}
	p.most = max(p.most, p.units)
}

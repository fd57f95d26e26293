package rlsapi

import (
	"math"
	"time"
)

const (
	// minMeasured is the minimum time in which the demand of a client is measured.
	minMeasured = 50 * time.Millisecond
	// minInterval is the interval between reports that is expected of every client.
	minInterval = quotaTTL / 4
)

// quotaDemand is the demand of a client, according to its reports. The zero value is
// unknown demand.
type quotaDemand struct {
	perSecond  float64       // requests per second at measuredAt
	interval   time.Duration // between reports
	measuredAt time.Duration // end of the last measurement; 0 before the first report
	reportedAt time.Duration // time of the last report
	requests   float64       // since measuredAt
}

// add adds the requests of a report. An increase of the demand counts immediately.
func (d *quotaDemand) add(at time.Duration, requests float64) {
	d.reportedAt = at
	if d.measuredAt == 0 {
		d.measuredAt = at
		return
	}
	d.requests += requests
	elapsed := at - d.measuredAt
	if elapsed < minMeasured {
		return
	}
	perSecond := d.requests / elapsed.Seconds()
	d.perSecond = max(perSecond, (d.perSecond+perSecond)/2)
	d.interval, d.requests, d.measuredAt = elapsed, 0, at
}

// isKnown reports whether the demand was measured.
func (d *quotaDemand) isKnown() bool { return d.perSecond > 0 }

// rate returns the requests per second at the time now. If a report is late, it halves in
// each interval, so that a client without reports gets few further tokens.
func (d *quotaDemand) rate(now time.Duration) float64 {
	interval := max(d.interval, minInterval)
	late := max(0, now-d.reportedAt-2*interval)
	return d.perSecond * math.Exp2(-late.Seconds()/interval.Seconds())
}

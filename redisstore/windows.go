package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// The windows of a calendar are computed in Go. A call contains the previous, the present
// and the next window of each such rule, so that the server's clock decides without a
// zone database. If the server's instant is in none of them, the script fails before it
// writes anything, and its error contains the instant. The store then sends the call
// again with the windows around this instant.

// appendHeader appends the rule's header to b. now is the instant of the call, or
// serverClock.
func (r *rule) appendHeader(b []byte, now int64) []byte {
	at := len(b) + 1 // the number of parameters
	b = append(b, r.header...)
	if r.dated == nil {
		return b
	}
	if now == serverClock {
		now = max(0, time.Now().UnixMicro()+r.store.clockShift.Load())
	}
	boundaries := r.dated.BoundariesAt(now)
	b[at] += byte(len(boundaries))
	for _, boundary := range boundaries {
		b = appendDouble(b, boundary)
	}
	return b
}

// identity returns bytes that are equal for rules that decide equally.
func (r *rule) identity(l headgate.Limit) []byte {
	if r.dated == nil {
		return r.header
	}
	return append(slices.Clip(r.header), l.String()...)
}

// maxWindowRetries is the maximum number of times that a call is sent again with other
// windows. One is enough, unless the server's clock jumps in the meantime.
const maxWindowRetries = 3

// sendAgainWithWindows sends the calls again that the script did not execute because they
// lacked the windows around the server's instant.
func (s *Store) sendAgainWithWindows(ctx context.Context, groups []*group, calls []Call, replies []Reply) {
	for range maxWindowRetries {
		var outside []int
		for i := range replies {
			if t, ok := instantOutside(replies[i].Err); ok {
				s.clockShift.Store(t - time.Now().UnixMicro())
				calls[i] = groups[i].call()
				outside = append(outside, i)
			}
		}
		if len(outside) == 0 {
			return
		}
		again, results := make([]Call, len(outside)), make([]Reply, len(outside))
		for i, j := range outside {
			again[i] = calls[j]
		}
		s.run(ctx, again, results)
		for i, j := range outside {
			replies[j] = results[i]
		}
	}
}

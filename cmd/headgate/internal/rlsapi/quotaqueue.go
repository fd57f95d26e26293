package rlsapi

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxQueuedReports is the maximum number of reports of a stream that wait for a renewal
// to end. A client sends the first report of each bucket immediately.
const maxQueuedReports = maxStreamBuckets

var errQueuedReports = status.Errorf(codes.ResourceExhausted, "%d reports wait for the store, which is the maximum; increase reporting_interval, or use fewer buckets", maxQueuedReports)

// queuedReport is a report or the end of a stream.
type queuedReport struct {
	report *quotaReport
	at     time.Duration // when the report was read; see [quotaStream.now]
	err    error
}

// reportQueue has the reports of a stream that were read and not applied yet. A report is
// read when it arrives, also while the stream waits for the store. Otherwise it would
// seem to have been sent after messages that the client had not received.
type reportQueue struct {
	arrived chan struct{} // has an element after an addition

	mu      sync.Mutex
	reports []queuedReport // guarded by mu
	closed  bool           // guarded by mu
}

func newReportQueue() *reportQueue { return &reportQueue{arrived: make(chan struct{}, 1)} }

// fill reads reports until the first error or until the queue is closed.
func (q *reportQueue) fill(read func() (*quotaReport, error), now func() time.Duration) {
	for {
		report, err := read()
		if !q.add(queuedReport{report, now(), err}) || err != nil {
			return
		}
	}
}

// add adds a report. It returns false if no further report can be added.
func (q *reportQueue) add(r queuedReport) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	full := len(q.reports) >= maxQueuedReports
	if q.closed || full {
		r.report.free()
	}
	if q.closed {
		return false
	}
	if full {
		r = queuedReport{at: r.at, err: errQueuedReports}
	}
	q.reports = append(q.reports, r)
	select {
	case q.arrived <- struct{}{}:
	default:
	}
	return !full
}

// take removes and returns all reports.
func (q *reportQueue) take() []queuedReport {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.reports
	q.reports = nil
	return all
}

// close drops all reports, also reports that are read later.
func (q *reportQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for i := range q.reports {
		q.reports[i].report.free()
	}
	q.reports = nil
}

package rlsapi

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
)

// countedMemory counts reserved bytes, up to a maximum for each reservation.
type countedMemory struct{ reserved, most int64 }

func (m *countedMemory) Reserve(n int64) bool {
	if n > m.most {
		return false
	}
	m.reserved += n
	return true
}

func (m *countedMemory) Grow(n int64) bool {
	m.reserved += n
	return n <= m.most
}

// oneMessage is a stream with one message of zero bytes.
type oneMessage struct{ size int }

func (m oneMessage) ReadMessageHeader(header []byte) error {
	binary.BigEndian.PutUint32(header[1:], uint32(m.size))
	return nil
}

func (m oneMessage) Read(n int) (mem.BufferSlice, error) {
	if n != m.size {
		return nil, io.ErrUnexpectedEOF
	}
	b := make([]byte, n) // field 0 is invalid
	for i := 0; i+1 < n; i += 2 {
		b[i] = 24 // field 3, a number
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// The memory of a report is reserved until it was applied, and not if reading fails.
func TestMemoryOfReports(t *testing.T) {
	t.Parallel()
	s := &Server{maxMessageBytes: 1 << 20}
	for _, size := range []int{0, 1000, shortBytes, shortBytes + 2, 1 << 20} {
		memory := &countedMemory{most: decodeFactor << 20}
		r, err := s.readReport(oneMessage{size}, memory)
		if err != nil || memory.reserved != decodeFactor*int64(size) {
			t.Errorf("%d bytes: got error %v and %d reserved bytes, want %d", size, err, memory.reserved, decodeFactor*size)
		}
		r.free()
		r.free()
		if memory.reserved != 0 {
			t.Errorf("%d bytes: %d bytes are reserved after the report was applied", size, memory.reserved)
		}
	}
	for _, size := range []int{1001, shortBytes + 1} { // incomplete messages
		memory := &countedMemory{most: decodeFactor << 20}
		if _, err := s.readReport(oneMessage{size}, memory); status.Code(err) != codes.InvalidArgument || memory.reserved != 0 {
			t.Errorf("%d bytes: got error %v and %d reserved bytes want InvalidArgument and 0", size, err, memory.reserved)
		}
	}
	for _, size := range []int{1000, shortBytes + 2} {
		memory := &countedMemory{most: 100}
		if _, err := s.readReport(oneMessage{size}, memory); status.Code(err) != codes.ResourceExhausted || memory.reserved != 0 {
			t.Errorf("%d bytes without memory: got error %v and %d reserved bytes want ResourceExhausted and 0", size, err, memory.reserved)
		}
	}
}

// Reports are queued while a stream waits for the store. Their memory is freed if they
// are never applied.
func TestReportQueue(t *testing.T) {
	t.Parallel()
	reserved := 0
	report := func() queuedReport {
		reserved++
		return queuedReport{report: &quotaReport{release: func() { reserved-- }}}
	}
	q := newReportQueue()
	for i := range maxQueuedReports {
		if !q.add(report()) {
			t.Fatalf("report %d was not added", i+1)
		}
	}
	if q.add(report()) || reserved != maxQueuedReports {
		t.Errorf("above the maximum: %d reports are reserved, want %d", reserved, maxQueuedReports)
	}
	all := q.take()
	if last := all[len(all)-1]; len(all) != maxQueuedReports+1 || !errors.Is(last.err, errQueuedReports) {
		t.Errorf("got %d reports, the last with error %v, want an error after %d reports", len(all), last.err, maxQueuedReports)
	}
	reserved = 0
	q.add(report())
	q.close()
	if q.add(report()) || reserved != 0 {
		t.Errorf("after the end: %d reports are reserved", reserved)
	}
}

// Grants of a client that does not report are merged after their deadlines.
func TestGrantsAreMerged(t *testing.T) {
	t.Parallel()
	b := newQuotaBucket(1, "b", nil)
	for i := range 200 {
		deadline := time.Duration(i+1) * time.Second
		b.grants = append(b.grants, &grant{max: 10, maxUnspent: 10, deadline: deadline, usedUntil: deadline, sent: true, replaced: true})
	}
	if err := b.endLeases(t.Context(), nil, 190*time.Second); err != nil {
		t.Fatal(err)
	}
	if n := len(b.grants); n >= maxGrants || b.lastGrant().deadline != 200*time.Second {
		t.Errorf("got %d grants want fewer than %d and the last one", n, maxGrants)
	}
	if b.want(190*time.Second, nil) == 0 {
		t.Error("no further grant is possible")
	}
	for i := range 200 { // grants whose leases have not ended
		b.grants = append(b.grants, &grant{max: 10, maxUnspent: 10, deadline: time.Hour, usedUntil: time.Hour, serial: int32(i)})
	}
	if n := b.want(190*time.Second, nil); n != 0 {
		t.Errorf("a bucket has too many grants: got %d further tokens", n)
	}
}

// A lease with the TTL of a commit is valid for at least as long as wanted.
func TestTTLOfValidity(t *testing.T) {
	t.Parallel()
	for valid := time.Millisecond; valid < quotaTTL; valid += 12345677 * time.Nanosecond {
		r := headgate.LeaseResult{TTL: ttlOfValidity(valid)}
		shorter := headgate.LeaseResult{TTL: r.TTL - 2*time.Microsecond}
		if r.TTL%time.Microsecond != 0 || r.Validity() < valid || shorter.Validity() >= valid {
			t.Errorf("for %v: got %v want the shortest TTL in whole µs", valid, r.TTL)
		}
	}
}

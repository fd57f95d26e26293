package middleware

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Case is one set of conditions under which all middlewares are measured.
type Case struct {
	Clients    int // number of client addresses, used in random order
	Goroutines int
}

// Cost is the cost of one request.
type Cost struct {
	Nanos  float64 // wall time in ns, divided by the number of requests of all goroutines
	CPU    float64 // processor time in ns, including garbage collection
	Allocs float64
}

// Round is the result of one round: one turn of the bare handler, then one turn of the
// handler with a middleware.
type Round struct {
	Bare, With Cost
	Denied     int64 // number of denied requests; expected to be 0
}

// Job is what a worker process measures: a row and a case.
type Job struct {
	Row  string
	Case Case
}

// Prepare calls the function [Prepare] for the job. It returns a function that measures
// one round. The argument of that function is the approximate duration of each of the
// two turns.
func (j Job) Prepare() (round func(time.Duration) (Round, error), err error) {
	row, err := Named(j.Row)
	if err != nil {
		return nil, err
	}
	subject, err := Prepare(row, j.Case)
	return subject.Round, err
}

// Subject is a row that is ready to be measured under a case.
type Subject struct {
	with  http.Handler
	kind  Case
	peers []string
	seed  uint64
}

// Prepare creates the middleware of a row and sends one request of every client, so
// that no client is new during a round.
func Prepare(row Row, c Case) (*Subject, error) {
	limit, err := row.New(c.Clients)
	if err != nil {
		return nil, fmt.Errorf("middleware: %s: %w", row.Name, err)
	}
	s := &Subject{with: limit(trivial{}), kind: c, peers: make([]string, c.Clients)}
	w, r := newResponse(), newRequest()
	for i := range s.peers {
		s.peers[i] = fmt.Sprintf("10.%d.%d.%d:%d", i>>16&255, i>>8&255, i&255, 1024+i%60000)
		r.RemoteAddr = s.peers[i]
		s.with.ServeHTTP(w, r)
		clear(w.header)
	}
	return s, nil
}

// Round measures the bare handler for about d, then the handler with the middleware for
// about d.
func (s *Subject) Round(d time.Duration) (Round, error) {
	bare, _, err := s.turn(trivial{}, d)
	if err != nil {
		return Round{}, err
	}
	with, denied, err := s.turn(s.with, d)
	return Round{Bare: bare, With: with, Denied: denied}, err
}

// batch is the number of requests that a goroutine sends between two checks whether the
// turn is over.
const batch = 256

// turn sends requests to h from all goroutines for about d, and returns the cost of one
// request and the number of denied requests.
func (s *Subject) turn(h http.Handler, d time.Duration) (c Cost, denied int64, err error) {
	var stop atomic.Bool
	var requests, denials atomic.Int64
	var wg sync.WaitGroup
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpuBefore, err := processorTime()
	if err != nil {
		return Cost{}, 0, err
	}
	began := time.Now()
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	for range s.kind.Goroutines {
		s.seed += 0x9e3779b97f4a7c15
		seed := s.seed
		wg.Go(func() {
			count, deniedCount := s.send(h, seed, &stop)
			requests.Add(count)
			denials.Add(deniedCount)
		})
	}
	wg.Wait()
	wall := time.Since(began)
	cpuAfter, err := processorTime()
	runtime.ReadMemStats(&after)
	n := float64(requests.Load())
	return Cost{
		Nanos: float64(wall) / n, CPU: float64(cpuAfter-cpuBefore) / n, Allocs: float64(after.Mallocs-before.Mallocs) / n,
	}, denials.Load(), err
}

// send sends requests of random clients to h until stop is true. x is the seed. It
// returns the number of all requests and the number of denied requests.
func (s *Subject) send(h http.Handler, x uint64, stop *atomic.Bool) (n, denied int64) {
	w, r := newResponse(), newRequest()
	for {
		for range batch {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			r.RemoteAddr = s.peers[(x>>32)*uint64(len(s.peers))>>32]
			h.ServeHTTP(w, r)
			clear(w.header)
		}
		if n += batch; stop.Load() {
			return n, w.denied
		}
	}
}

// processorTime returns the user and system time that this process has used.
func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// trivial is the handler that the middlewares wrap. It reads the client's address, so
// that the cache miss for that text is not counted as a cost of a middleware.
type trivial struct{}

func (trivial) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.RemoteAddr[0] == 0 {
		w.WriteHeader(http.StatusNoContent)
	}
}

// response is an http.ResponseWriter that discards the response. It reuses its header
// map, because a new map for each request would add an allocation to every row.
type response struct {
	header http.Header
	denied int64
}

func newResponse() *response { return &response{header: make(http.Header, 8)} }

func (a *response) Header() http.Header       { return a.header }
func (*response) Write(p []byte) (int, error) { return len(p), nil }
func (a *response) WriteHeader(int)           { a.denied++ }

func newRequest() *http.Request {
	return httptest.NewRequest(http.MethodGet, "http://example.com/items/1", http.NoBody)
}

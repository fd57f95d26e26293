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

// Case is one situation.
type Case struct {
	Clients    int // addresses, visited at random
	Goroutines int
}

// Cost is what one request takes.
type Cost struct {
	Nanos  float64 // wall time by the requests of all goroutines together
	CPU    float64 // ns of processor time, garbage collection included
	Allocs float64
}

// Round is the bare handler's turn, and just after it that of the handler behind a middleware.
type Round struct {
	Bare, With Cost
	Denied     int64 // of all requests; there should be none
}

// Job is the row, by name, and the case that a worker process measures.
type Job struct {
	Row  string
	Case Case
}

// Prepare calls [Prepare] for the job, and returns how to measure a round, of about a given time for each of its turns.
func (j Job) Prepare() (round func(time.Duration) (Round, error), err error) {
	row, err := Named(j.Row)
	if err != nil {
		return nil, err
	}
	subject, err := Prepare(row, j.Case)
	return subject.Round, err
}

// Subject is a row made ready for a case.
type Subject struct {
	with  http.Handler
	kind  Case
	peers []string
	seed  uint64
}

// Prepare makes the row's middleware, and asks once for every client, so that no round inserts any.
func Prepare(row Row, c Case) (*Subject, error) {
	limit, err := row.New(c.Clients)
	if err != nil {
		return nil, fmt.Errorf("middleware: %s: %w", row.Name, err)
	}
	s := &Subject{with: limit(trivial{}), kind: c, peers: make([]string, c.Clients)}
	w, r := newAnswer(), newRequest()
	for i := range s.peers {
		s.peers[i] = fmt.Sprintf("10.%d.%d.%d:%d", i>>16&255, i>>8&255, i&255, 1024+i%60000)
		r.RemoteAddr = s.peers[i]
		s.with.ServeHTTP(w, r)
		clear(w.header)
	}
	return s, nil
}

// Round measures the bare handler and then the row, for about d each.
func (s *Subject) Round(d time.Duration) (Round, error) {
	bare, _, err := s.turn(trivial{}, d)
	if err != nil {
		return Round{}, err
	}
	with, denied, err := s.turn(s.with, d)
	return Round{Bare: bare, With: with, Denied: denied}, err
}

// batch is how many requests a goroutine sends before it looks whether to go on.
const batch = 256

// turn sends requests to h from all goroutines.
func (s *Subject) turn(h http.Handler, d time.Duration) (c Cost, denied int64, err error) {
	var stop atomic.Bool
	var requests, refused atomic.Int64
	var wg sync.WaitGroup
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, err := processorTime()
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
			n, no := s.send(h, seed, &stop)
			requests.Add(n)
			refused.Add(no)
		})
	}
	wg.Wait()
	took := time.Since(began)
	until, err := processorTime()
	runtime.ReadMemStats(&after)
	n := float64(requests.Load())
	return Cost{
		Nanos: float64(took) / n, CPU: float64(until-cpu) / n, Allocs: float64(after.Mallocs-before.Mallocs) / n,
	}, refused.Load(), err
}

// send is one goroutine: requests of random clients, one after another, until it is to stop.
func (s *Subject) send(h http.Handler, x uint64, stop *atomic.Bool) (n, refused int64) {
	w, r := newAnswer(), newRequest()
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
			return n, w.refused
		}
	}
}

// processorTime is what this process has used, of user and system together.
func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// trivial is the handler. It reads the peer's address, so that a cache miss on its text is not the middleware's.
type trivial struct{}

func (trivial) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.RemoteAddr[0] == 0 {
		w.WriteHeader(http.StatusNoContent)
	}
}

// answer is a response that nobody reads. Its header is used again, as a new one would be each row's alone.
type answer struct {
	header  http.Header
	refused int64
}

func newAnswer() *answer { return &answer{header: make(http.Header, 8)} }

func (a *answer) Header() http.Header       { return a.header }
func (*answer) Write(p []byte) (int, error) { return len(p), nil }
func (a *answer) WriteHeader(int)           { a.refused++ }

func newRequest() *http.Request {
	return httptest.NewRequest(http.MethodGet, "http://example.com/items/1", http.NoBody)
}

package faults

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/history"
)

// The first operation of a history is at noon of 2026-01-01 (UTC). All operations of a
// history are within an hour, so that they are in one window.
const (
	noon   = headgate.Instant(1_767_268_800_000_000)
	window = 3_600_000_000
)

// strides are the maximum steps, in µs, between the instants of two operations. The
// keys use them in turn: half of the keys no step, the others up to 1 s, or up to 20 s,
// in which units are refilled.
var strides = []int64{0, 0, 1_000_000, 20_000_000}

const (
	// checkTimeout is the maximum time for the check of one history.
	checkTimeout = 10 * time.Second
	// maxRepeats limits the number of histories to this multiple of Suite.Histories. A
	// history that cannot be checked within checkTimeout is undecided, and is replaced
	// by another one.
	maxRepeats = 3
)

// run is the test of one fault, with many injections.
type run struct {
	suite  Suite
	fault  Fault
	stores []headgate.Store

	check func(l *history.Log, timeout time.Duration) error

	rounds, histories int
	undecided         atomic.Int64 // number of undecided histories
	counts            history.Counts
	slowestRecovery   time.Duration // the longest time from a recovery to the first answer of a client
}

// String returns a summary of the test of one fault.
func (r *run) String() string {
	return fmt.Sprintf("%d injections, %d histories, %d of them undecided, all others explained; operations: %d answered, %d of unknown outcome, %d failed; recovered within %v",
		r.rounds, r.histories, r.undecided.Load(), r.counts.Answered, r.counts.Unknown, r.counts.Failed, r.slowestRecovery.Round(time.Millisecond))
}

func (r *run) runAll() error {
	for r.histories-int(r.undecided.Load()) < r.suite.Histories && r.histories < maxRepeats*r.suite.Histories {
		if err := r.runRound(); err != nil {
			return fmt.Errorf("injection %d: %w", r.rounds+1, err)
		}
		r.rounds++
		r.histories += r.suite.Keys
	}
	if int(r.undecided.Load()) == r.histories {
		return fmt.Errorf("linearizability check of all %d histories timed out after %v each", r.histories, checkTimeout)
	}
	if noticed := r.counts.Unknown + r.counts.Failed; r.fault.MustFail && noticed == 0 {
		return errors.New("no operation failed or has an unknown outcome: the fault had no effect")
	}
	return nil
}

// runRound injects the fault once, while clients use Suite.Keys keys, and checks the
// histories of these keys.
func (r *run) runRound() error {
	s := &round{run: r, recovered: make(chan struct{})}
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.runClients(); err != nil {
		return err
	}
	return s.checkHistories()
}

// round is one injection of a fault, with the keys and clients that are in use.
type round struct {
	run             *run
	subjects        []*subject
	ready           sync.WaitGroup // counts the clients that have not yet executed opsBefore operations
	recovered       chan struct{}  // closed when the fault has ended
	recoveredAt     time.Time      // set before the channel recovered is closed
	slowestRecovery atomic.Int64   // in ns; the longest time from the recovery to the first answer of a client

	mu  sync.Mutex
	err error // the first error of a client or a check
}

// subject is a key under test and its history.
type subject struct {
	key       string
	onlyHolds bool             // whether only holds take units
	limits    []headgate.Limit
	bounds    [][]headgate.Bound // by limit, the bound rule in each store
	log       *history.Log
	stride    int64
	now       atomic.Int64 // the instant of the latest operation, in µs after noon
}

func (s *round) prepare() error {
	suite := &s.run.suite
	for i := range suite.Keys {
		n := s.run.histories + i
		a := suite.Algorithms[n%len(suite.Algorithms)]
		limits := suite.limitsOf(a, []int64{6, 20, 60}[n/len(suite.Algorithms)%3])
		sub := &subject{
			onlyHolds: a.OnlyHolds(), key: fmt.Sprintf("key %d", n), limits: limits, log: history.New(a, limits[0]),
			stride: strides[n/len(suite.Algorithms)%len(strides)],
		}
		if suite.Holds || suite.Overrides {
			sub.stride = 0
		}
		if err := s.bind(sub, a, n); err != nil {
			return err
		}
		s.subjects = append(s.subjects, sub)
	}
	return nil
}

// bind binds the limits of a key to every store.
func (s *round) bind(sub *subject, a headgate.Algorithm, n int) error {
	scope := fmt.Sprintf("faults %x %s %d", s.run.suite.Seed, s.run.fault.Name, n)
	for _, limit := range sub.limits {
		var bounds []headgate.Bound
		for _, store := range s.run.stores {
			b, err := store.Bind(headgate.Rule{Scope: scope, Name: "rule", Limit: limit, Algorithm: a})
			if err != nil {
				return err
			}
			bounds = append(bounds, b)
		}
		sub.bounds = append(sub.bounds, bounds)
	}
	return nil
}

// limitsOf returns the limits that clients use: one of n units, and with overrides others.
func (s *Suite) limitsOf(a headgate.Algorithm, n int64) []headgate.Limit {
	switch {
	case s.Bans:
		return []headgate.Limit{ban}
	case s.Overrides:
		return []headgate.Limit{limitOf(a, n), limitOf(a, 3*n), limitOf(a, n/2)}
	default:
		return []headgate.Limit{limitOf(a, n)}
	}
}

// limitOf returns a limit of n units per hour, or of n units at a time.
func limitOf(a headgate.Algorithm, n int64) headgate.Limit {
	if a.OnlyHolds() {
		return headgate.Limit{Rate: n, Concurrent: true}
	}
	return headgate.Limit{Rate: n, Period: time.Hour}
}

// runClients starts the clients, injects the fault when all of them have executed their
// first operations, and waits until all clients have ended.
func (s *round) runClients() error {
	var all sync.WaitGroup
	clients := s.run.suite.Clients
	s.ready.Add(len(s.subjects) * clients)
	for n, sub := range s.subjects {
		for c := range clients {
			all.Go(func() { s.runClient(n, sub, c) })
		}
	}
	s.ready.Wait()
	injectedAt, err := s.injectAndRecover()
	for _, sub := range s.subjects {
		sub.log.RecordLoss(s.run.fault.MayLose, injectedAt, s.recoveredAt)
	}
	close(s.recovered)
	all.Wait()
	s.run.slowestRecovery = max(s.run.slowestRecovery, time.Duration(s.slowestRecovery.Load()))
	return errors.Join(err, s.err)
}

func (s *round) injectAndRecover() (injectedAt time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	injectedAt = time.Now()
	if err = s.run.fault.Inject(ctx); err != nil {
		err = fmt.Errorf("inject: %w", err)
	} else {
		time.Sleep(s.run.fault.Duration)
	}
	if recovery := s.run.fault.Recover; recovery != nil {
		if e := recovery(ctx); e != nil {
			err = errors.Join(err, fmt.Errorf("recover: %w", e))
		}
	}
	s.recoveredAt = time.Now()
	return injectedAt, err
}

// checkHistories checks the history of every key. It checks as many histories
// concurrently as there are processors.
func (s *round) checkHistories() error {
	var all sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, sub := range s.subjects {
		counts := sub.log.Counts()
		s.run.counts.Add(counts)
		if s.run.fault.Transparent && counts.Unknown+counts.Failed > 0 {
			s.recordError(fmt.Errorf("%d operations of unknown outcome and %d that failed, under a transparent fault:\n%v", counts.Unknown, counts.Failed, sub.log))
		}
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			err := s.run.check(sub.log, checkTimeout)
			if errors.Is(err, history.ErrUndecided) {
				s.run.undecided.Add(1)
				return
			}
			s.recordError(err)
		})
	}
	all.Wait()
	return s.err
}

func (s *round) recordError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

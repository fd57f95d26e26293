package fallback_test

import (
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// result is the result of one request.
type result struct {
	at, took time.Duration // start since the beginning of the load, and duration
	node     int
	reason   headgate.StoreErrorReason // ReasonNone if the store decided
}

// nodeLoad sends requests for keys on several nodes, each key by its own client.
type nodeLoad struct {
	began   time.Time
	stop    atomic.Bool
	wait    sync.WaitGroup
	mu      sync.Mutex
	results []result
	pauses  [][]result // times in which the machine was busy, for each node
}

// startNodeLoad starts the clients. keys contains the keys of each node.
func startNodeLoad(t *testing.T, l *headgate.Limiter, keys [][]string) *nodeLoad {
	load := &nodeLoad{began: time.Now(), pauses: make([][]result, len(keys))}
	for node, own := range keys {
		for _, key := range own {
			load.wait.Go(func() {
				for !load.stop.Load() {
					load.add(load.request(t, l, node, key))
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
	}
	return load
}

func (l *nodeLoad) request(t *testing.T, limit *headgate.Limiter, node int, key string) result {
	start := time.Now()
	_, err := limit.Allow(background, key)
	r := result{at: start.Sub(l.began), took: time.Since(start), node: node}
	var known *headgate.StoreError
	if errors.As(err, &known) {
		r.reason = known.Reason
	} else if err != nil {
		t.Error(err)
	}
	return r
}

func (l *nodeLoad) add(r result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results = append(l.results, r)
}

// now returns the time since the beginning of the load.
func (l *nodeLoad) now() time.Duration { return time.Since(l.began) }

// finish stops the clients.
func (l *nodeLoad) finish() {
	l.stop.Store(true)
	l.wait.Wait()
}

// waitUntilAllDecide waits until the store has decided keys of every node in requests
// that began after this call.
func (l *nodeLoad) waitUntilAllDecide(t *testing.T, nodes int) {
	t.Helper()
	since := l.now()
	eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		decided := map[int]bool{}
		for _, r := range l.results {
			if r.at > since && r.reason == headgate.ReasonNone {
				decided[r.node] = true
			}
		}
		return len(decided) == nodes
	}, "decisions for keys on every node")
}

const (
	pingEvery = 2 * time.Millisecond
	maxPing   = 2 * time.Millisecond // an idle machine answers a PING in less time

	// settleTime is the time after a pause of the machine in which breakers may be open.
	settleTime = time.Second
)

// startPings sends a PING to a node repeatedly, on a connection of its own. Requests that
// are late or not decided while a PING or this process is late show a busy machine, not a
// defect.
func (l *nodeLoad) startPings(t *testing.T, node int, addr, ping string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	l.wait.Go(func() {
		defer conn.Close()
		reply := make([]byte, 64)
		for !l.stop.Load() {
			start := time.Now()
			conn.SetDeadline(start.Add(time.Minute))
			conn.Write([]byte(ping))
			if _, err := conn.Read(reply); err != nil {
				return // the node was killed
			}
			time.Sleep(pingEvery)
			if took := time.Since(start) - pingEvery; took > maxPing {
				l.mu.Lock()
				l.pauses[node] = append(l.pauses[node], result{at: start.Sub(l.began), took: took})
				l.mu.Unlock()
			}
		}
	})
}

// busy reports whether the machine was busy during r, or within the given time before.
func (l *nodeLoad) busy(r result, before time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.pauses[r.node], func(p result) bool {
		return p.at < r.at+r.took && r.at < p.at+p.took+before
	})
}

// counts are the numbers of results by reason.
type counts map[headgate.StoreErrorReason]int

// late returns how many of the results took longer than the budget and 2 ms, and how many
// of these did so although the machine was not busy.
func (l *nodeLoad) late(results []result, budget time.Duration) (all, missed int) {
	for _, r := range results {
		if r.took > budget+2*time.Millisecond {
			all++
			if !l.busy(r, 0) {
				missed++
			}
		}
	}
	return all, missed
}

// longest returns the longest duration of a request.
func longest(results []result) (most time.Duration) {
	for _, r := range results {
		most = max(most, r.took)
	}
	return most
}

// between returns the results that end after from and start before to.
func (l *nodeLoad) between(from, to time.Duration) (some []result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.results {
		if r.at+r.took >= from && r.at < to {
			some = append(some, r)
		}
	}
	return some
}

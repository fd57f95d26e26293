package respapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// bombs is a store that panics for one key.
type bombs struct{ headgate.Store }

func (b bombs) Bind(rule headgate.Rule) (headgate.Bound, error) {
	bound, err := b.Store.Bind(rule)
	return bomb{bound}, err
}

type bomb struct{ headgate.Bound }

func (b bomb) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if key == "boom" {
		panic("boom")
	}
	return b.Bound.Apply(ctx, now, key, v, cost)
}

func TestPanicEndsOneConnection(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		store := memstore.New(&memstore.Options{MaxEntries: 100})
		defer store.Close()
		s := serve(t, d, bombs{store}, Options{}, nil)
		other := s.dial()
		conn := s.dial()
		s.write(conn, request("PING")+request("CL.THROTTLE", "k", "15", "30", "60")+request("CL.THROTTLE", "boom", "15", "30", "60"))
		s.expect(conn, "+PONG\r\n"+numbersReply(0, 16, 15, -1, 2))
		if d.networked {
			s.expect(conn, "-Cell error: Store error: internal error\r\n")
		} else {
			s.expectEnd(conn, "-ERR internal error\r\n")
		}
		s.write(other, request("CL.THROTTLE", "k", "15", "30", "60"))
		s.expect(other, numbersReply(0, 16, 14, -1, 4))
		if !strings.Contains(s.log.String(), "panic while handling request") {
			t.Errorf("the log says %q", s.log)
		}
	})
}

// meeting is a store whose decisions block until a number of decisions are running.
type meeting struct {
	headgate.Store
	all *sync.WaitGroup
}

func (m meeting) Bind(rule headgate.Rule) (headgate.Bound, error) {
	bound, err := m.Store.Bind(rule)
	return met{bound, m.all}, err
}

type met struct {
	headgate.Bound
	all *sync.WaitGroup
}

func (m met) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if strings.HasPrefix(key, "meet") {
		m.all.Done()
	}
	if key != "same" || cost > 1 { // the first of one key is late
		m.all.Wait()
	}
	return m.Bound.Apply(ctx, now, key, v, cost)
}

// TestPipelineIsDecidedConcurrently: over a networked store, pipelined requests are
// decided concurrently, because clients multiplex many callers over one connection.
// Requests of the same key stay in order.
func TestPipelineIsDecidedConcurrently(t *testing.T) {
	t.Parallel()
	const together = 20
	var all sync.WaitGroup
	all.Add(together)
	s := serve(t, transports[1], meeting{newFrozen(t), &all}, Options{}, nil)
	conn := s.dial()
	var input, want strings.Builder
	input.WriteString(request("CL.THROTTLE", "same", "99", "1", "1", "50"))
	want.WriteString(numbersReply(0, 100, 50, -1, 50))
	for i := range together {
		input.WriteString(request("CL.THROTTLE", "same", "99", "1", "1"))
		want.WriteString(numbersReply(0, 100, 49-int64(i), -1, int64(i)+51))
		input.WriteString(request("CL.THROTTLE", fmt.Sprint("meet", i), "15", "30", "60"))
		want.WriteString(numbersReply(0, 16, 15, -1, 2))
	}
	s.write(conn, input.String())
	s.expect(conn, want.String())
}

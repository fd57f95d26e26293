package headgate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// serverStore is a store with several servers: a key “a 7” is on the server a. It records
// the extensions, which do not end for a key whose server hangs.
type serverStore struct {
	*memstore.Store
	hangs func(key string) bool

	mu       sync.Mutex
	inFlight map[headgate.HoldID]bool // holds whose extension is in progress
	mistakes []string
	calls    int // calls that have begun
	done     int // calls that have succeeded
	running  int
	most     int // maximum of running
}

// serverBound is a Bound of a serverStore.
type serverBound struct{ headgate.Bound }

// Node implements the optional method of [headgate.NodeOf].
func (serverBound) Node(key string) string {
	node, _, _ := strings.Cut(key, " ")
	return node
}

func (s *serverStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return serverBound{b}, err
}

// ApplyHolds executes ops, whose Bounds are those of this store.
func (s *serverStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if verb == headgate.ExtendHold {
		s.begin(ops)
		defer s.end(ops)
		for _, op := range ops {
			if s.hangs != nil && s.hangs(op.Key) {
				<-ctx.Done()
			}
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	inner := append([]headgate.HoldOp(nil), ops...)
	for i := range inner {
		inner[i].Bound = inner[i].Bound.(serverBound).Bound
	}
	at, err := s.Store.ApplyHolds(ctx, now, verb, ttl, inner, results)
	if verb == headgate.ExtendHold && err == nil {
		s.mu.Lock()
		s.done++
		s.mu.Unlock()
	}
	return at, err
}

func (s *serverStore) begin(ops []headgate.HoldOp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.running++
	s.most = max(s.most, s.running)
	for _, op := range ops {
		if s.inFlight[op.ID] {
			s.mistakes = append(s.mistakes, "the extension of "+op.Key+" began twice")
		}
		s.inFlight[op.ID] = true
		if (serverBound{}).Node(op.Key) != (serverBound{}).Node(ops[0].Key) {
			s.mistakes = append(s.mistakes, op.Key+" and "+ops[0].Key+" were extended together")
		}
	}
}

func (s *serverStore) end(ops []headgate.HoldOp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	for _, op := range ops {
		delete(s.inFlight, op.ID)
	}
}

// counts returns the number of calls that have begun, the number of successful ones, and
// the maximum at the same time, since the last call of counts. Then it fails the test if
// the store has recorded a mistake.
func (s *serverStore) counts(t *testing.T) [3]int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.mistakes {
		t.Error(text)
	}
	counts := [3]int{s.calls, s.done, s.most}
	s.calls, s.done, s.most, s.mistakes = 0, 0, 0, nil
	return counts
}

// keepAlive returns a KeepAlive that extends a hold of each key.
func (s *serverStore) keepAlive(t *testing.T, lost func(*headgate.Hold, error), keys []string) *headgate.KeepAlive {
	t.Helper()
	s.inFlight = map[headgate.HoldID]bool{}
	k, err := headgate.NewKeepAlive(&headgate.KeepAliveOptions{TTL: 30 * time.Second, Lost: lost})
	if err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, s, "streams", nil, "1 concurrent")
	for _, key := range keys {
		h, err := l.Hold(t.Context(), key, 1, k.TTL())
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		k.Add(h)
	}
	return k
}

func keysOf(servers string, perServer int) (keys []string) {
	for _, server := range servers {
		for i := range perServer {
			keys = append(keys, fmt.Sprintf("%c %d", server, i))
		}
	}
	return keys
}

// While one server does not answer, the holds on all other servers are extended, whatever
// their number. No hold is extended twice at the same time.
func TestKeepAliveHangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Int64
		s := &serverStore{Store: memstore.New(nil), hangs: func(key string) bool { return key[0] == 'b' }}
		k := s.keepAlive(t, func(*headgate.Hold, error) { lost.Add(1) }, keysOf("abc", 600))
		defer k.Close()
		time.Sleep(10*time.Second + time.Millisecond)
		if got := s.counts(t); got[0] != 9 || got[1] != 6 {
			t.Errorf("first interval: got %v calls, successful and at the same time; want 9 and 6", got)
		}
		time.Sleep(10 * time.Minute)
		s.counts(t)
		free, l := map[byte]int{}, newLimiter(t, s, "streams", nil, "1 concurrent")
		for _, key := range keysOf("abc", 600) {
			d, err := l.Peek(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if d.Remaining > 0 {
				free[key[0]]++
			}
		}
		if free['a'] > 0 || free['b'] != 600 || free['c'] > 0 || lost.Load() > 0 {
			t.Errorf("got %v slots released, %d holds lost; want only the 600 slots of the server that hangs released, none reported", free, lost.Load())
		}
	})
}

// More calls hang than are made at the same time. Each call has a part of the time, so
// that all are made in each interval.
func TestKeepAliveManyHangingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &serverStore{Store: memstore.New(nil), hangs: func(key string) bool { return key != "z 0" }}
		k := s.keepAlive(t, nil, append(keysOf("abcd", 256*10), "z 0"))
		defer k.Close()
		time.Sleep(10*time.Second + 9*(k.TTL()/3+k.TTL()/9) - time.Second)
		if got, want := s.counts(t), [3]int{9 * 41, 9, 16}; got != want {
			t.Errorf("9 intervals: got %v calls, successful and at the same time; want %v", got, want)
		}
		if d, err := newLimiter(t, s, "streams", nil, "1 concurrent").Peek(t.Context(), "z 0"); err != nil || d.Remaining != 0 {
			t.Errorf("the hold on the server that answers: got %+v, error %v want its slot taken", d, err)
		}
	})
}

package httpfields_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/memstore"
)

var (
	fieldsFlag = flag.Int("fields", 50_000, "number of random policies and states")
	seedFlag   = flag.Uint64("seed", 1, "seed of the random policies and states")
)

// caseCount returns n, or a twentieth of it in short mode or with the race detector.
func caseCount(n int) int {
	if testing.Short() || raceDetector {
		return n / 20
	}
	return n
}

var algorithms = func() []headgate.Algorithm {
	names := []headgate.Algorithm{headgate.GCRA, ""}
	for _, a := range algo.Rates() {
		names = append(names, a.Name)
	}
	return names
}()

// testNames are ordinary and malformed names.
var testNames = []string{
	"", "login", "api:10/s", "default", "default-2", `quoted "name"`, `back\slash`, "two\nlines\r\n", "é 漢字 \xff\x00", "a,b;c=d", " ",
	"login", "", "rate limit", "\x7f~", `";r=0;t=0, "x`,
}

// randomLimit returns a valid limit: small, unusual or huge.
func randomLimit(r *rand.Rand) httpfields.Limit {
	for {
		l := headgate.Limit{Rate: 1 + r.Int64N(20), Period: time.Duration(1+r.Int64N(60)) * time.Second}
		switch r.IntN(4) {
		case 0:
			l.Period = time.Duration(1000+r.Int64N(5_000_000)) * time.Microsecond
		case 1:
			l.Rate, l.Period = 1+r.Int64N(headgate.MaxUnits), time.Duration(1+r.Int64N(31_622_400_000))*time.Millisecond
		case 2:
			l.Period = time.Second / time.Duration([]int64{1, 2, 4, 5, 10, 1000}[r.IntN(6)])
		}
		algorithm := algorithms[r.IntN(len(algorithms))]
		if algorithm.Queues() {
			l.Queue = r.Int64N(20)
		} else {
			l.Burst = max(0, r.Int64N(60)-30)
		}
		if l.Validate() == nil {
			return httpfields.Limit{Name: testNames[r.IntN(len(testNames))], Limit: l, Algorithm: algorithm}
		}
	}
}

// randomCost returns a cost: usually small, sometimes the capacity, sometimes more.
func randomCost(r *rand.Rand, l httpfields.Limit) int64 {
	capacity := l.Limit.Capacity()
	switch r.IntN(6) {
	case 0:
		return capacity
	case 1:
		return 1 + r.Int64N(capacity)
	case 2:
		return r.Int64N(2*capacity + 2)
	default:
		return r.Int64N(3)
	}
}

// state is a request and the decisions on it at a time.
type state struct {
	*request
	now       headgate.Instant
	cost      int64
	decisions []headgate.Decision
}

// randomState returns the state after some charges at random times. Several states
// share a store.
func randomState(tb testing.TB, r *rand.Rand, store headgate.Store, key string) (*state, bool) {
	limits := make([]httpfields.Limit, 1+max(0, r.IntN(7)-3))
	for i := range limits {
		limits[i] = randomLimit(r)
	}
	request, err := tryBind(store, key, limits...)
	if err != nil {
		return nil, false // a store may reject a valid limit
	}
	s := &state{request: request, now: start + headgate.Instant(r.Int64N(1e15))}
	for range 1 + r.IntN(4) {
		s.cost = randomCost(r, limits[r.IntN(len(limits))])
		s.decisions = s.decide(tb, s.now, s.cost, r.IntN(8) == 0)
		if r.IntN(3) == 0 {
			break
		}
		s.now += headgate.Instant(r.Int64N(int64(limits[0].Limit.Period/time.Microsecond) + 2))
	}
	if s.now > start { // the last decision must be made at now
		s.decisions = s.decide(tb, s.now, s.cost, r.IntN(8) == 0)
	}
	return s, true
}

// eachState calls check with n random states, on two goroutines.
func eachState(t *testing.T, n int, check func(r *rand.Rand, s *state)) {
	t.Helper()
	// binding a rule takes longer the more rules a store has
	const workers, perStore = 2, 100
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(*seedFlag, uint64(worker)))
			var store headgate.Store
			for i := 0; i < n/workers && !t.Failed(); i++ {
				if i%perStore == 0 {
					store = memstore.New(&memstore.Options{MaxEntries: 8 * perStore})
				}
				if s, ok := randomState(t, r, store, strconv.Itoa(i%perStore)); ok {
					check(r, s)
				} else {
					i--
				}
				if i%perStore == perStore-1 {
					_ = store.Close()
				}
			}
		})
	}
	all.Wait()
}

// String describes the state for failure messages.
func (s *state) String() string {
	text := fmt.Sprintf("seed %d, at %d, cost %d:\n", *seedFlag, s.now, s.cost)
	for i, l := range s.limits {
		text += fmt.Sprintf("  %q %s %s: %+v\n", l.Name, l.Limit, l.Algorithm, s.decisions[i])
	}
	return text
}

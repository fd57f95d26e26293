package memo_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/memo"
)

func TestPutKeepsFirstValue(t *testing.T) {
	m := memo.New[string, int](4)
	if got := m.Put("a", 1); got != 1 {
		t.Errorf("first Put(a, 1) = %d, want 1", got)
	}
	if got := m.Put("a", 2); got != 1 {
		t.Errorf("second Put(a, 2) = %d, want the first value 1", got)
	}
	if got, ok := m.Get("a"); !ok || got != 1 {
		t.Errorf("Get(a) = %d, %v, want 1, true", got, ok)
	}
	if got, ok := m.Get("b"); ok {
		t.Errorf("Get(b) = %d, true, want nothing", got)
	}
}

// Client input must not exhaust memory.
func TestBound(t *testing.T) {
	const limit = 16
	m := memo.New[string, int](limit)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				m.Put(strconv.Itoa(g*1000+i), i)
				if n := m.Len(); n > limit {
					t.Errorf("after key %d: %d values kept, want at most %d", g*1000+i, n, limit)
				}
			}
		})
	}
	wg.Wait()
	m.Put("last", 7)
	if got, ok := m.Get("last"); !ok || got != 7 {
		t.Errorf("Get(last) = %d, %v, want 7, true", got, ok)
	}
}

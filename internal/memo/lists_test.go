package memo_test

import (
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/memo"
)

func same(int) uint64 { return 0 } // all lists of one length have one slot

func own(n int) uint64 { return uint64(n) }

func TestLists(t *testing.T) {
	t.Parallel()
	for name, hash := range map[string]func(int) uint64{"same slot": same, "own slots": own} {
		c := memo.NewLists[int, string](8, hash)
		lists := map[string][]int{"one": {1}, "two": {1, 2}, "other": {2, 1}, "four": {1, 2, 3, 4}, "zeros": {0, 0}, "zero": {0}}
		delete(lists, "zero") // only one of the lists 0 and 0, 0 is stored, as they have one array
		for value, list := range lists {
			if got := c.Put(list, value); got != value {
				t.Errorf("%s: Put(%v) = %q want %q", name, list, got, value)
			}
			list[0] += 100 // lists are not retained
			list[0] -= 100
		}
		for range 3 {
			for value, list := range lists {
				if got, ok := c.Get(list); !ok || got != value {
					t.Errorf("%s: Get(%v) = %q, %v want %q", name, list, got, ok, value)
				}
			}
		}
		for _, list := range [][]int{{}, {3}, {0}, {1, 2, 3}, {1, 2, 3, 4, 5}} {
			if got, ok := c.Get(list); ok {
				t.Errorf("%s: Get(%v) = %q want nothing", name, list, got)
			}
		}
		if got := c.Put([]int{1}, "again"); got != "one" {
			t.Errorf("%s: the second Put = %q want the first value", name, got)
		}
		if got := c.Put([]int{0}, "zero"); got != "zero" {
			t.Errorf("%s: Put of another list of zeros = %q want zero", name, got)
		}
		if c.Put([]int{1, 2, 3, 4, 5}, "five"); c.Len() != len(lists) {
			t.Errorf("%s: %d values are stored want %d", name, c.Len(), len(lists))
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	c := memo.NewLists[int, int](16, own)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				n := g*1000 + i
				if v, ok := c.Get([]int{n}); ok && v != n {
					t.Errorf("Get(%d) = %d", n, v)
				}
				if v := c.Put([]int{n}, n); v != n {
					t.Errorf("Put(%d) = %d", n, v)
				}
				if c.Len() > 16 {
					t.Errorf("%d values are stored want at most 16", c.Len())
				}
			}
		})
	}
	wg.Wait()
}

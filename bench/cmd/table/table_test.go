package main

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench"
)

// round returns a round of 1000 checks that take the given time each.
func round(nanos int, allocs float64) bench.Result {
	return bench.Result{Checks: 1000, Wall: time.Duration(1000 * nanos), Denied: 0.1, Allocs: allocs}
}

func TestTableComparesMediansWithTheFastestPeer(t *testing.T) {
	peers, err := bench.Named("headgate,x/time/rate,ulule,uber,key alone")
	if err != nil {
		t.Fatal(err)
	}
	p := plan{peers: peers, keys: []int{1}, denied: []int{10}, goroutines: []int{2}}
	cellOf := func(peer string) cell { return cell{peer, 1, 10, 2} }
	m := measured{
		cellOf("headgate"):    {round(900, 0), round(40, 0), round(50, 0), round(60, 0), round(20, 0)},
		cellOf("x/time/rate"): {round(200, 0)},
		cellOf("ulule"):       {round(400, 2)},
		cellOf("uber"):        {round(45, 0)},
		cellOf("key alone"):   {round(5, 0)},
	}
	var out strings.Builder
	m.print(&out, p)
	for _, want := range []string{
		"| headgate | 50.0 | 0.00 | 10.0 % |\n",
		"| x/time/rate | 200.0 (4.0×) | 0.00 | 10.0 % |\n",
		"| ulule | 400.0 (8.0×) | 2.00 | 10.0 % |\n",
		"| key alone | 5.0 | 0.00 | 10.0 % |\n",
		"| 1 | 10 % | 2 | 50.0 | x/time/rate, 200.0 | 4.00 | 0.00 |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("table: want a row %q, got\n%s", want, out.String())
		}
	}
}

func TestCellNamesHaveBenchstatFormat(t *testing.T) {
	got := cell{"x/time/rate", 100, 90, 2}.String()
	if want := "BenchmarkAllow/keys=100/denied=90/goroutines=2/peer=x-time-rate"; got != want {
		t.Errorf("name of a cell: got %q, want %q", got, want)
	}
}

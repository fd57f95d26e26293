package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// largest is the maximum size of a picture in bytes. A page shows all pictures and must
// load fast.
const largest = 40_000

func TestPicturesInDocsAreUpToDate(t *testing.T) {
	t.Parallel()
	for _, a := range algo.Rates() {
		if a.Name.HasCalendar() {
			continue
		}
		t.Run(string(a.Name), func(t *testing.T) {
			t.Parallel()
			r, err := run(a.Name)
			if err != nil {
				t.Fatal(err)
			}
			picture, err := draw(r)
			if err != nil {
				t.Fatal(err)
			}
			if len(picture) > largest {
				t.Errorf("%s: got %d bytes, want at most %d", a.Name, len(picture), largest)
			}
			if runtime.GOARCH != "amd64" {
				return // other architectures may round the last digit of a coordinate differently
			}
			name := filepath.Join("..", "..", "..", "docs", "pictures", string(a.Name)+".svg")
			current, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(picture, current) {
				t.Errorf("%s: %s is out of date; run make pictures", a.Name, name)
			}
		})
	}
}

func TestAlgorithmsOnTraffic(t *testing.T) {
	t.Parallel()
	// before and after count the requests allowed in the second before and after the
	// window boundary at 4 s. allowed counts all. maxRate is the maximum per second.
	for _, c := range []struct {
		algorithm                       headgate.Algorithm
		before, after, allowed, maxRate int64
	}{
		{"token_bucket", 10, 1, 75, 15},
		{"token_bucket_interval", 10, 0, 65, 10},
		{"fixed_window", 10, 10, 75, 20},
		{"sliding_log", 10, 0, 65, 10},
		{"sliding_window", 9, 1, 62, 10},
		{"leaky_bucket", 10, 1, 75, 10},
	} {
		t.Run(string(c.algorithm), func(t *testing.T) {
			t.Parallel()
			a, err := algo.Named(c.algorithm)
			if err != nil {
				t.Fatal(err)
			}
			r, err := run(a.Name)
			if err != nil {
				t.Fatal(err)
			}
			before, after, allowed := r.allowedIn(3*second, 4*second), r.allowedIn(4*second, 5*second), r.allowedIn(0, length)
			if before != c.before || after != c.after || allowed != c.allowed {
				t.Errorf("%s: got %d, %d and %d allowed in the second before 4 s, in the second after it and in total, want %d, %d and %d",
					c.algorithm, before, after, allowed, c.before, c.after, c.allowed)
			}
			var maxRate int64
			for _, l := range r.lastSecond() {
				maxRate = max(maxRate, l.n)
			}
			if maxRate != c.maxRate || maxRate > maxPerSecond(a.Name) {
				t.Errorf("%s: got a maximum of %d sent in a second, want %d, within the guarantee of %d",
					c.algorithm, maxRate, c.maxRate, maxPerSecond(a.Name))
			}
		})
	}
}

func (r *result) allowedIn(from, until int64) (n int64) {
	for _, q := range r.requests {
		if q.allowed && q.at >= from && q.at < until {
			n++
		}
	}
	return n
}

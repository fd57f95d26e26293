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

// largest is the most bytes of a picture: pages that show all of them should load at once.
const largest = 40_000

func TestPicturesAreThoseInTheDocs(t *testing.T) {
	t.Parallel()
	for _, a := range algo.All() {
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
				t.Errorf("%s: got %d bytes want at most %d", a.Name, len(picture), largest)
			}
			if runtime.GOARCH != "amd64" {
				return // other processors may round the last digit of a coordinate otherwise
			}
			name := filepath.Join("..", "..", "..", "docs", "pictures", string(a.Name)+".svg")
			kept, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(picture, kept) {
				t.Errorf("%s: got another picture than %s; make pictures draws them", a.Name, name)
			}
		})
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		algorithm                     headgate.Algorithm
		before, behind, allowed, most int64 // admitted just before and behind the edge at 4 s, in all, and in the fullest second
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
			before, behind, allowed := r.allowedIn(3*second, 4*second), r.allowedIn(4*second, 5*second), r.allowedIn(0, length)
			if before != c.before || behind != c.behind || allowed != c.allowed {
				t.Errorf("%s: got %d, %d and %d admitted before 4 s, behind it and in all want %d, %d and %d",
					c.algorithm, before, behind, allowed, c.before, c.behind, c.allowed)
			}
			var most int64
			for _, l := range r.lastSecond() {
				most = max(most, l.n)
			}
			if most != c.most || most > mostInASecond(a.Name) {
				t.Errorf("%s: got at most %d out in a second want %d, and no more than the guarantee of %d",
					c.algorithm, most, c.most, mostInASecond(a.Name))
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

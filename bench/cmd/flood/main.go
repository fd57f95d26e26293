// Command flood attacks a bounded store with random keys and says whether the keys in regular use noticed. Its exit status is 1
// if they did.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/headgate/headgate/bench"
)

func main() {
	var f bench.Flood
	flag.IntVar(&f.Requests, "requests", 100_000_000, "requests with random keys")
	flag.IntVar(&f.Entries, "entries", 1_000_000, "keys that the store is bounded to")
	flag.IntVar(&f.Bytes, "bytes", 64_000_000, "bytes that the store is bounded to; 0 for no such bound")
	flag.IntVar(&f.Busy, "busy", 1000, "keys in regular use")
	flag.IntVar(&f.Every, "every", 100, "random requests between two with a busy key")
	flag.Parse()
	if f.Requests < 1 || f.Entries < 1 || f.Busy < 1 || f.Every < 1 {
		exit(fmt.Errorf("all numbers must be at least 1: %+v", f))
	}
	r, err := f.Run()
	if err != nil {
		exit(err)
	}
	print(f, r)
	if r.Differing > 0 {
		exit(fmt.Errorf("%d busy requests were answered otherwise; the first: %s", r.Differing, r.First))
	}
}

func print(f bench.Flood, r bench.FloodReport) {
	const mb = 1e6
	fmt.Println(bench.ThisMachine())
	fmt.Printf("random requests        %d, of which %d could not be decided\n", r.Random, r.Errors)
	fmt.Printf("busy requests          %d over %d keys, %d admitted\n", r.Busy, f.Busy, r.Admitted)
	fmt.Printf("answered otherwise     %d\n", r.Differing)
	fmt.Printf("bound                  %d keys, %.1f MB\n", f.Entries, float64(f.Bytes)/mb)
	fmt.Printf("held at the end        %d keys, %.1f MB\n", r.Stats.Keys, float64(r.Stats.Bytes)/mb)
	fmt.Printf("shared a spare bucket  %d\n", r.Stats.Overflowed)
	fmt.Printf("resident memory        %.1f MB before, %.1f MB at most, %.1f MB after (the whole process)\n",
		float64(r.Before)/mb, float64(r.Peak)/mb, float64(r.After)/mb)
	fmt.Printf("checks per second      %.0f on one goroutine\n", float64(r.Random+2*r.Busy)/r.Wall.Seconds())
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, "flood:", err)
	os.Exit(1)
}

// Package mutation sends mutated requests to an interface, and checks that a well-behaved
// client is still served. Use it only in tests.
//
// The number of requests is small by default; the flag -mutations sets it. The requests
// are the same in every run: each is derived from its number.
package mutation

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var count = flag.Int("mutations", 0, "mutated requests for each interface; 0: few")

const (
	few       = 3_000 // number of mutated requests by default
	senders   = 8     // number of connections, or of other senders, of an attack
	maxErrors = 5     // number of errors after which an attack ends
)

// Attack are the requests to one interface.
type Attack struct {
	// Sender returns a function that sends one mutated request, which it derives from rng
	// only. It returns an error if the response is one that must not occur. Sender is
	// called once for each of several goroutines.
	Sender func() func(rng *rand.Rand) error
	// Polite sends one request of a well-behaved client, and returns an error if the
	// response is not the correct one. It is also called concurrently.
	Polite func() error
	// Share divides the number of mutated requests, for an interface with several
	// servers that are attacked separately. 0 means 1.
	Share int
}

// Run sends the mutated requests while a well-behaved client sends its own. It logs the
// p99 latency of the well-behaved client in three situations: without other load, under
// valid requests at the maximum rate, and under the mutated requests.
func (a *Attack) Run(t *testing.T) {
	t.Helper()
	n := *count
	if n == 0 {
		n = few
	}
	n /= max(1, a.Share)
	politely := min(n/10, 10_000)
	var alone []time.Duration
	for range politely {
		alone = a.polite(t, alone)
	}
	valid := a.during(t, politely, func() func(*rand.Rand) error {
		return func(*rand.Rand) error { return a.Polite() }
	})
	begin := time.Now()
	mutated := a.during(t, n, a.Sender)
	took := time.Since(begin)
	a.polite(t, nil)
	t.Logf("%d mutated requests in %v; p99 of a well-behaved client: alone %v, during valid requests %v, "+
		"during mutated requests %v (%.1f times)", n, took.Round(time.Millisecond), p99(alone), p99(valid), p99(mutated), float64(p99(mutated))/float64(p99(valid)))
}

// during sends n requests of the given sender, and returns the latencies of the
// well-behaved client meanwhile.
func (a *Attack) during(t *testing.T, n int, sender func() func(*rand.Rand) error) (latencies []time.Duration) {
	t.Helper()
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range senders {
		send := sender()
		all.Go(func() {
			for i := next.Add(1); i <= int64(n) && failed.Load() < maxErrors; i = next.Add(1) {
				if err := send(rand.New(rand.NewPCG(uint64(i), 1))); err != nil {
					failed.Add(1)
					t.Errorf("request %d: %v", i, err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	for {
		latencies = a.polite(t, latencies)
		select {
		case <-ended:
			return latencies
		default:
		}
		if t.Failed() {
			<-ended
			return latencies
		}
	}
}

// polite sends one request of the well-behaved client and appends its latency.
func (a *Attack) polite(t *testing.T, to []time.Duration) []time.Duration {
	t.Helper()
	begin := time.Now()
	if err := a.Polite(); err != nil {
		t.Errorf("the well-behaved client: %v", err)
	}
	return append(to, time.Since(begin))
}

func p99(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*99/100]
}

// Value returns a value as a client may choose it: short or long, of any bytes, or with a
// part of one of the seeds.
func Value(rng *rand.Rand, seeds ...string) string {
	switch rng.IntN(6) {
	case 0:
		return pick(rng, seeds)
	case 1:
		return Bytes(rng, rng.IntN(40))
	case 2:
		return strings.Repeat(pick(rng, append(seeds, "a", "%", "../", "{", `\`, "é", "\xff")), 1+rng.IntN(1+Length(rng)/4))
	case 3:
		return pick(rng, awkward)
	}
	return Mutate(rng, pick(rng, seeds))
}

// Bytes returns n random bytes.
func Bytes(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

// Length returns a length: mostly small, and sometimes next to a bound of an interface.
func Length(rng *rand.Rand) int {
	if rng.IntN(16) > 0 {
		return rng.IntN(64)
	}
	return max(0, []int{256, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 60 << 10}[rng.IntN(6)]+rng.IntN(5)-2)
}

// awkward are values that programs often misread.
var awkward = []string{
	"", " ", "\x00", "\t", "\n", "\r\n", "\xff", "\xc3", "\xed\xa0\x80", "\uFFFD", "%00", "%", "%zz", "..", "/", "//", "\\", "*", "?", "#",
	"0", "-1", "+1", "1e9", "0x10", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551616", "NaN",
	"null", "true", "[]", "{}", `"`, "'", "127.0.0.1", "::1", "10.0.0.1", "localhost", "unknown", "sha256=", "chunked", "close", "100-continue",
}

// Mutate returns text after up to four random changes: bytes or parts are changed,
// inserted, deleted, repeated or moved.
func Mutate(rng *rand.Rand, text string) string {
	for range rng.IntN(5) {
		i := rng.IntN(len(text) + 1)
		j := i + rng.IntN(min(len(text)-i, 32)+1)
		switch rng.IntN(7) {
		case 0:
			text = text[:i] + text[j:]
		case 1:
			text = text[:i] + Bytes(rng, 1+rng.IntN(4)) + text[i:]
		case 2:
			text = text[:i] + pick(rng, awkward) + text[j:]
		case 3:
			text = text[:j] + text[i:]
		case 4:
			text = text[:j] + strings.Repeat(text[i:j], 1+rng.IntN(1+Length(rng)/(j-i+1))) + text[j:]
		case 5:
			text = text[j:] + text[:i]
		case 6:
			text = text[:i] + strconv.FormatUint(rng.Uint64()>>rng.IntN(64), 10) + text[j:]
		}
	}
	return text
}

func pick(rng *rand.Rand, all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[rng.IntN(len(all))]
}

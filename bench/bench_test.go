package bench

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var keysFlag = flag.String("keys", "1,10000", "comma-separated `numbers` of keys")

var denialRates = []float64{0.1, 0.9}

// BenchmarkAllow runs every peer in every case. The tables in results are measured by
// cmd/table instead, which runs each peer in a separate process and interleaves the
// rounds.
func BenchmarkAllow(b *testing.B) {
	for keys := range strings.SplitSeq(*keysFlag, ",") {
		n, err := strconv.Atoi(keys)
		if err != nil {
			b.Fatalf("-keys=%s: %v", *keysFlag, err)
		}
		for _, denied := range denialRates {
			for _, p := range Peers() {
				benchmarkPeer(b, p, Case{Keys: n, Denied: denied})
			}
		}
	}
}

func benchmarkPeer(b *testing.B, p Peer, c Case) {
	if p.OneKey && c.Keys > 1 {
		return
	}
	s, err := Prepare(p, c)
	if err != nil {
		b.Fatal(err)
	}
	for _, goroutines := range []int{1, 2} {
		name := fmt.Sprintf("keys=%d/denied=%.0f%%/goroutines=%d/%s", c.Keys, 100*c.Denied, goroutines, strings.ReplaceAll(p.Name, "/", "-"))
		b.Run(name, func(b *testing.B) {
			l, err := s.forRound(goroutines)
			if err != nil {
				b.Fatal(err)
			}
			each := int64(b.N/goroutines + 1)
			b.ResetTimer()
			r := drive(l, c.Keys, goroutines, 1, func(done int64) bool { return done < each })
			b.ReportMetric(r.Nanos(), "ns/check")
			b.ReportMetric(r.Allocs, "allocs/check")
			b.ReportMetric(100*r.Denied, "%denied")
		})
	}
}

// limiters returns the peers that limit each of many keys.
func limiters() []Peer {
	var found []Peer
	for _, p := range Peers() {
		if !p.NoLimiter && !p.OneKey {
			found = append(found, p)
		}
	}
	return found
}

func TestPeersAllowExactlyTheBurst(t *testing.T) {
	limit := Limit{Count: 7, Per: 57 * time.Hour, Burst: 5}
	for _, p := range limiters() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			l, err := p.New(limit, 2)
			if err != nil {
				t.Fatal(err)
			}
			allowed := map[string]int{}
			for range 3 * limit.Burst {
				for _, key := range []string{"a", "b"} {
					if l.Allow(key) {
						allowed[key]++
					}
				}
			}
			if allowed["a"] != limit.Burst || allowed["b"] != limit.Burst {
				t.Errorf("allowed of %d requests with a burst of %d: got %v, want the burst", 3*limit.Burst, limit.Burst, allowed)
			}
		})
	}
}

func TestOnlyDrainedKeysAreDenied(t *testing.T) {
	const keys, checks = 1000, 10_000
	for _, p := range limiters() {
		for _, denied := range denialRates {
			t.Run(fmt.Sprintf("%s %.0f%%", p.Name, 100*denied), func(t *testing.T) {
				t.Parallel()
				s, err := Prepare(p, Case{Keys: keys, Denied: denied})
				if err != nil {
					t.Fatal(err)
				}
				r := drive(s.limiter, keys, 2, 1, func(done int64) bool { return done < checks/2 })
				if r.Checks < checks || math.Abs(r.Denied-denied) > 0.04 {
					t.Errorf("got %.3f denied of %d checks, want about %.1f of %d", r.Denied, r.Checks, denied, checks)
				}
			})
		}
	}
}

func TestPeersWithoutLimitNeverDeny(t *testing.T) {
	for _, p := range Peers() {
		if !p.NoLimiter && !p.OneKey {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			l, err := p.New(Rate(1), 1)
			if err != nil {
				t.Fatal(err)
			}
			for range 1000 {
				if !l.Allow("user:0") {
					t.Fatalf("Allow: got a denial from a row without a limit")
				}
			}
		})
	}
}

func TestPrepareRejectsManyKeysForSingleKeyLimiter(t *testing.T) {
	for _, p := range Peers() {
		_, err := Prepare(p, Case{Keys: 2})
		if got := err != nil; got != p.OneKey {
			t.Errorf("Prepare(%s, 2 keys): got error %v, want an error: %v", p.Name, err, p.OneKey)
		}
	}
}

func TestKeysAreUniformlyDistributed(t *testing.T) {
	const keys, draws = 120, 120_000
	k := NewKeys(keys, 7)
	counts := map[string]int{}
	for range draws {
		counts[strings.Clone(k.Next())]++
	}
	if len(counts) != keys {
		t.Errorf("distinct keys in %d draws of %d: got %d, want all", draws, keys, len(counts))
	}
	for i := range uint64(keys) {
		text := "user:" + strconv.FormatUint(i, 10)
		if got := k.Key(i); got != text {
			t.Errorf("Key(%d): got %q, want %q", i, got, text)
		}
		// The expected number of draws per key is 1000; eight standard deviations are
		// 253.
		if n := counts[text]; n < 747 || n > 1253 {
			t.Errorf("draws of %s: got %d of %d over %d keys, want about 1000", text, n, draws, keys)
		}
	}
}

func TestKeyFormatsSmallAndLargeNumbers(t *testing.T) {
	k := NewKeys(1, 0)
	for _, i := range []uint64{0, 9, 10, 99_999_999, 100_000_000, 999_999_999_999} {
		if got, want := k.Key(i), "user:"+strconv.FormatUint(i, 10); got != want {
			t.Errorf("Key(%d): got %q, want %q", i, got, want)
		}
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	k := NewKeys(1_000_000, 0)
	var last atomic.Int64
	if n := testing.AllocsPerRun(1000, func() { last.Store(int64(len(k.Next()))) }); n != 0 {
		t.Errorf("allocations of Next: got %v, want 0", n)
	}
}

func TestNamed(t *testing.T) {
	for _, test := range []struct {
		name, input string
		want        int
		errorHas    string
	}{
		{"all", "", len(Peers()), ""},
		{"two", "uber, headgate", 2, ""},
		{"unknown", "headgate,missing", 0, `"missing"; must be one of headgate, x/time/rate`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Named(test.input)
			if len(got) != test.want {
				t.Errorf("Named(%q): got %d rows, want %d", test.input, len(got), test.want)
			}
			if text := fmt.Sprint(err); test.errorHas != "" && !strings.Contains(text, test.errorHas) {
				t.Errorf("Named(%q): got error %q, want it to contain %q", test.input, text, test.errorHas)
			}
		})
	}
}

func TestParseNumbersRejectsInvalidLists(t *testing.T) {
	for _, input := range []string{"", "0", "-1", "1,x", "1,,2"} {
		if got, err := ParseNumbers("keys", input); err == nil {
			t.Errorf("ParseNumbers(%q): got %v, want an error", input, got)
		}
	}
	if got, err := ParseNumbers("keys", "1, 20"); err != nil || len(got) != 2 || got[1] != 20 {
		t.Errorf(`ParseNumbers("1, 20"): got %v (%v), want [1 20]`, got, err)
	}
}

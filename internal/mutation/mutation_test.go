package mutation_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/mutation"
)

// TestRequestsAreReproducible: the same number results in the same request.
func TestRequestsAreReproducible(t *testing.T) {
	t.Parallel()
	different := make(map[string]bool)
	for seed := range uint64(1_000) {
		request := func() string {
			return mutation.HTTPRequest(rand.New(rand.NewPCG(seed, 1)), "GET", "/login", "", "X-Key", "k")
		}
		if a, b := request(), request(); a != b {
			t.Fatalf("seed %d: got %.100q and %.100q", seed, a, b)
		}
		different[request()] = true
	}
	if len(different) < 800 {
		t.Errorf("got %d different requests of 1000", len(different))
	}
}

// TestValuesCoverKinds: the values include long ones, bytes that are not UTF-8, control
// characters, and empty ones.
func TestValuesCoverKinds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	var long, binary, control, empty int
	for range 10_000 {
		switch v := mutation.Value(rng, "alice"); {
		case v == "":
			empty++
		case len(v) > 1024:
			long++
		case v != strings.ToValidUTF8(v, ""):
			binary++
		case strings.ContainsAny(v, "\x00\r\n"):
			control++
		}
	}
	if min(long, binary, control, empty) < 50 {
		t.Errorf("of 10,000 values %d are long, %d binary, %d with control characters, %d empty; want 50 of each", long, binary, control, empty)
	}
}

// TestAttackRunsEveryRequest: every mutated request is sent once, and the well-behaved
// client sends its own.
func TestAttackRunsEveryRequest(t *testing.T) {
	t.Parallel()
	var sent, polite atomic.Int64
	(&mutation.Attack{
		Sender: func() func(*rand.Rand) error {
			return func(*rand.Rand) error {
				sent.Add(1)
				return nil
			}
		},
		Polite: func() error {
			if polite.Add(1) < 0 {
				return errors.New("overflow")
			}
			return nil
		},
	}).Run(t)
	if sent.Load() < 3_000 || polite.Load() < 601 {
		t.Errorf("got %d mutated requests and %d others", sent.Load(), polite.Load())
	}
}

// Package leaktest finds goroutines that tests leak. Use it only in tests.
//
// It calls goleak repeatedly until a deadline. Some goroutines of net/http run for half
// a second after their connection has ended, and goleak alone does not wait that long.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// maxWait is how long goroutines may take to end. It is many times what they need,
// because the machine may be busy.
const maxWait = 10 * time.Second

// Main runs the tests of a package and exits with their status, or with 1 if they
// leaked goroutines.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := find(maxWait); err != nil {
			fmt.Fprintln(os.Stderr, "leaktest: the tests passed but leaked goroutines:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Since returns a function that fails the test if goroutines that started after the
// call of Since still run. The test must not be parallel.
func Since(t testing.TB) (check func()) {
	before := goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		if err := find(maxWait, before); err != nil {
			t.Error(err)
		}
	}
}

// find calls goleak.Find until it finds no leak, or until the time within has passed.
// It returns the last error.
func find(within time.Duration, opts ...goleak.Option) error {
	for deadline := time.Now().Add(within); ; {
		if err := goleak.Find(opts...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// Package leaktest finds goroutines that tests leave behind. It is for tests only.
//
// It asks goleak, again and again until a deadline: some of net/http's goroutines rightly last half a second longer than the connection
// they served, and goleak by itself waits for less.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines have to end: many times what any of them rightly takes, for machines that are busy.
const patience = 10 * time.Second

// Main runs the tests of a package and ends the program: with their outcome, and with 1 if they left goroutines behind.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := find(patience); err != nil {
			fmt.Fprintln(os.Stderr, "leaktest: the tests succeeded, and left goroutines behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Since begins to watch one test, which must not be parallel. What it returns fails the test if goroutines go on that began meanwhile.
func Since(t testing.TB) (check func()) {
	before := goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		if err := find(patience, before); err != nil {
			t.Error(err)
		}
	}
}

// find is goleak.Find, for as long as within.
func find(within time.Duration, opts ...goleak.Option) error {
	for deadline := time.Now().Add(within); ; {
		if err := goleak.Find(opts...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

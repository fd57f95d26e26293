//go:build unix

package memstore_test

import (
	"syscall"
	"testing"
)

// processorTime returns the processor time that this process has used, in ns. On a busy
// machine it is a better measure of the cost of an operation than the time that has
// passed.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

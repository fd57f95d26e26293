package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// spareHeap is how much is allocated between two garbage collections at least, in bytes. A service that keeps little collects after each
// 4 MB otherwise, which at tens of thousands of requests a second is a fifth of its CPU. It is address space alone: nobody writes to
// it, so that no memory is behind it, and what is kept grows by it only as far as garbage does.
const spareHeap = 32 << 20

// spareCollector has the garbage collector wait for spareHeap, until what it returns is called, unless somebody has tuned it: GOGC or
// GOMEMLIMIT is there.
func spareCollector() (end func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" || debug.SetMemoryLimit(-1) < 16*spareHeap {
		return func() {}
	}
	ballast := make([]byte, spareHeap)
	return func() { runtime.KeepAlive(ballast) }
}

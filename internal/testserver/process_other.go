//go:build !linux

package testserver

import (
	"sync"
	"syscall"
)

// The numbers on the systems that come from BSD. Elsewhere sending them fails, and so does the test.
const sigStop, sigContinue = syscall.Signal(17), syscall.Signal(19)

// diesWithUs: only Linux ends a child with its parent. Here a server stays when the process of the tests is killed.
func diesWithUs() *syscall.SysProcAttr { return nil }

// isStopped: nothing to ask here; the signal works soon.
func isStopped(int) bool { return true }

var claimed sync.Map // port → true

// claim makes a port ours among the tests of this process.
func claim(port int) (release func(), ok bool) {
	_, taken := claimed.LoadOrStore(port, true)
	return func() { claimed.Delete(port) }, !taken
}

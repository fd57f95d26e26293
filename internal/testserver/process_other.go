//go:build !linux

package testserver

import (
	"sync"
	"syscall"
)

// The signal numbers of BSD systems. On other systems sending them fails, and so does
// the test.
const sigStop, sigContinue = syscall.Signal(17), syscall.Signal(19)

// killWithParent returns nil: only Linux can kill a child with its parent. Here a
// server keeps running if the test process is killed.
func killWithParent() *syscall.SysProcAttr { return nil }

// isStopped returns true: the state cannot be read here, and the signal takes effect
// soon.
func isStopped(int) bool { return true }

var claimed sync.Map // port → true

// claim reserves a port among the tests of this process.
func claim(port int) (release func(), ok bool) {
	_, taken := claimed.LoadOrStore(port, true)
	return func() { claimed.Delete(port) }, !taken
}

package testserver

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"syscall"
)

const sigStop, sigContinue = syscall.SIGSTOP, syscall.SIGCONT

// killWithParent returns attributes of a child that is killed when the thread that
// started it ends.
func killWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// isStopped reports whether a process is paused. In /proc/PID/stat the state follows
// the name in parentheses.
func isStopped(pid int) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	end := bytes.LastIndexByte(text, ')')
	return end >= 0 && bytes.HasPrefix(text[end:], []byte(") T"))
}

// claim reserves a port among all tests on this machine. It binds a name in the
// abstract socket namespace, which belongs to the same network namespace as the port
// and ends with this process. release frees the port.
func claim(port int) (release func(), ok bool) {
	l, err := net.Listen("unix", "@headgate-testserver-"+strconv.Itoa(port))
	if err != nil {
		return nil, false
	}
	return func() { _ = l.Close() }, true
}

package testserver

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"syscall"
)

const sigStop, sigContinue = syscall.SIGSTOP, syscall.SIGCONT

// diesWithUs makes a child that is killed when the thread that made it ends.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// isStopped reads the state of a process, which follows its name in parentheses.
func isStopped(pid int) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	end := bytes.LastIndexByte(text, ')')
	return end >= 0 && bytes.HasPrefix(text[end:], []byte(") T"))
}

// claim makes a port ours among all tests on this machine: a name in the abstract namespace of sockets, which lives in the same
// network namespace as the port and goes with our process. It returns what gives the port back.
func claim(port int) (release func(), ok bool) {
	l, err := net.Listen("unix", "@headgate-testserver-"+strconv.Itoa(port))
	if err != nil {
		return nil, false
	}
	return func() { _ = l.Close() }, true
}

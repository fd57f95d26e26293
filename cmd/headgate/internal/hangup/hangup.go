// Package hangup keeps SIGHUP from ending the process while the service starts.
//
// SIGHUP reloads the configuration of a running service. For about the first ten
// milliseconds, while all packages are initialized, the service does not handle the
// signal yet, and the default action would end the process. This package imports only
// the standard library, so it is initialized before most others.
package hangup

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// early receives SIGHUP from the start of the process until [Release].
var early = hold(os.Args)

// hold returns a channel that receives SIGHUP, or nil if args do not start the service.
func hold(args []string) chan os.Signal {
	if !startsService(args) {
		return nil
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// startsService reports whether args run the service: “headgate serve”, or a program
// that is called ratelimit, as in the containers of envoyproxy/ratelimit.
func startsService(args []string) bool {
	if len(args) < 2 {
		return len(args) == 1 && filepath.Base(args[0]) == "ratelimit"
	}
	return args[1] == "serve" || filepath.Base(args[1]) == "ratelimit"
}

// Release restores the default action of SIGHUP, which ends the process. If the process
// has received SIGHUP since its start, Release sends the signal again. A service that
// has nothing to reload calls Release after its start.
func Release() {
	if early == nil {
		return
	}
	signal.Stop(early)
	select {
	case hangup := <-early:
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Signal(hangup) // a process may always signal itself
		}
	default:
	}
}

package service

import (
	"fmt"
	"io"
	"net"
)

// writeHints writes a command to try for each listener that has one.
func writeHints(w io.Writer, listeners []listener) {
	for _, l := range listeners {
		switch _, socket := l.ln.Addr().(*net.UnixAddr); {
		case l.name == "http":
			fmt.Fprintf(w, "try: curl -d '{\"limit\":\"5/1m\",\"key\":\"you\"}' %s://%s/v1/check\n", scheme(l.ln), Reachable(l.ln.Addr()))
		case l.name == "resp" && socket:
			fmt.Fprintf(w, "try: redis-cli -s %s CL.THROTTLE you 4 5 60\n", l.ln.Addr())
		case l.name == "resp":
			host, port, _ := net.SplitHostPort(Reachable(l.ln.Addr()))
			fmt.Fprintf(w, "try: redis-cli -h %s -p %s CL.THROTTLE you 4 5 60\n", host, port)
		}
	}
}

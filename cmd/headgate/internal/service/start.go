package service

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// logStart logs the start of the service and each listener.
func logStart(p *parts, listeners []listener) {
	attributes := []any{
		"version", p.version, "file", cmp.Or(p.live.Status().Path, "none"),
		"policies", len(p.config.Policies), "routes", len(p.config.Routes), "state", stateLocation(p),
	}
	for _, l := range listeners {
		if l.name == "http" && localaccess.Addr(l.ln.Addr()) {
			attributes = append(attributes, "demo", demoURL(l))
		}
	}
	p.log.Info("headgate started", attributes...)
	for _, l := range listeners {
		p.log.Info("listener started", "listener", l.name, "address", l.ln.Addr().String())
	}
}

// stateLocation returns the location of the state for the log: the URL of the store
// without secrets, or a text that the state is in memory and lost at the end of the
// process.
func stateLocation(p *parts) string {
	if storeopen.Networked(string(p.config.Store)) {
		return p.config.Store.Masked()
	}
	return "in memory, lost on exit"
}

// demoURL returns the URL of the demo page on the HTTP listener.
func demoURL(l listener) string {
	return scheme(l.ln) + "://" + Reachable(l.ln.Addr()) + demoPath + "/"
}

// maxFirstWait is the maximum time for which the start waits for the first connection
// to the store, so that a failure is logged early. Requests are already served during
// this time.
const maxFirstWait = 100 * time.Millisecond

// logFirstConnection logs an error if the first attempt to connect to the store fails
// within maxFirstWait.
func logFirstConnection(ctx context.Context, log *slog.Logger, first <-chan error) {
	select {
	case err := <-first:
		if err != nil && ctx.Err() == nil {
			log.Warn("store not reachable yet", "error", err)
		}
	case <-ctx.Done():
	case <-time.After(maxFirstWait):
	}
}

// writeHints writes an example command for each listener that has one. With a password
// or TLS, it writes none for the Redis-compatible endpoint, because the command would
// contain a secret or need files.
func writeHints(w io.Writer, listeners []listener, resp *config.RESP, needsToken bool) {
	token := ""
	if needsToken {
		token = "-H 'Authorization: Bearer TOKEN' "
	}
	for _, l := range listeners {
		switch _, socket := l.ln.Addr().(*net.UnixAddr); {
		case l.name == "resp" && (resp.Password != "" || len(resp.Users) > 0 || resp.TLS.Cert != ""):
		case l.name == "http":
			fmt.Fprintf(w, "try: curl %s-d '{\"limit\":\"5/1m\",\"key\":\"you\"}' %s://%s/v1/check\n", token, scheme(l.ln), Reachable(l.ln.Addr()))
		case l.name == "resp" && socket:
			fmt.Fprintf(w, "try: redis-cli -s %s CL.THROTTLE you 4 5 60\n", l.ln.Addr())
		case l.name == "resp":
			host, port, _ := net.SplitHostPort(Reachable(l.ln.Addr()))
			fmt.Fprintf(w, "try: redis-cli -h %s -p %s CL.THROTTLE you 4 5 60\n", host, port)
		}
	}
}

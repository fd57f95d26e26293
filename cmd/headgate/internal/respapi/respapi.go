// Package respapi is the service's door for Redis clients. It answers CL.THROTTLE as the module redis-cell does and THROTTLE as
// throttlecrab does, HG.CHECK, HG.PEEK, HG.REFUND and HG.RESET for the service's policies, and as much of Redis' own commands as stock
// clients send when they connect. It knows its protocol and nothing of arithmetic or storage. docs/resp.md says it all to users.
//
// # How a connection is served
//
// On Linux, connections of TCP and unix sockets are served by event loops: one goroutine waits for all of them, reads, decides and
// writes, so that a small request costs two system calls and nothing else. That needs a store that answers at once. Over a store
// that is asked through a network ([Options].Networked), for TLS, on other systems and where loops are
// switched off ([ServerOptions].NoLoops) each connection has a goroutine; the requests
// that came together are then decided together, but for those of one key, and answered in their order.
package respapi

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// Bounds on clients, unless [Options] say otherwise.
const (
	DefaultMaxClients      = 10_000
	DefaultMaxRequestBytes = 16 << 10
)

// mostArgs bounds the arguments of a request: COMMAND DOCS names every command, and nothing else takes more than ten.
const mostArgs = 1024

// Options are a handler's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Password is what clients must know; empty means that everybody may ask.
	Password string
	// User is whose password that is; empty means default, the user of a client that says a password alone.
	User string
	// Networked says that the store is asked through a network, so that a decision takes its time.
	Networked bool
	// MaxClients is the most connections at a time, those beyond are told so and closed; 0 means [DefaultMaxClients].
	MaxClients int
	// MaxRequestBytes is the longest request, and the longest transaction, in bytes; 0 means [DefaultMaxRequestBytes]. What is kept of a
	// connection between two of its turns is at most one of each, a read of 16 KiB, and 16 KiB and one reply to send, which is at most
	// some ten times as long as what was asked.
	MaxRequestBytes int
	// Version is what INFO calls the version of this program.
	Version string
	// Log hears of panics and of clients that were cut off; nil means nobody does. No key, name or address is in it.
	Log *slog.Logger
}

// Handler answers requests. It is made with [New] and may be used concurrently.
type Handler struct {
	engine    *engine.Engine
	commands  map[string]*command
	login     *login
	networked bool
	version   string
	log       *slog.Logger
	known     bounds // of clients that have said who they are
	unknown   bounds
	since     time.Time
	clients   counters
}

// counters are of connections.
type counters struct {
	most    int64
	now     atomic.Int64
	all     atomic.Int64 // the last one's number, too
	refused atomic.Int64
}

// New makes the door of e. opts may be nil.
func New(e *engine.Engine, opts *Options) *Handler {
	opts = cmp.Or(opts, &Options{})
	h := &Handler{
		engine:    e,
		commands:  allCommands(),
		login:     newLogin(opts.User, opts.Password),
		networked: opts.Networked,
		version:   opts.Version,
		log:       opts.Log,
		since:     time.Now(),
	}
	h.clients.most = int64(cmp.Or(opts.MaxClients, DefaultMaxClients))
	size := cmp.Or(opts.MaxRequestBytes, DefaultMaxRequestBytes)
	h.known = bounds{request: size, args: mostArgs, bulk: size}
	h.unknown = bounds{request: min(size, unauthenticatedBytes), args: unauthenticatedArgs, bulk: size}
	h.log = cmp.Or(h.log, slog.New(slog.DiscardHandler))
	return h
}

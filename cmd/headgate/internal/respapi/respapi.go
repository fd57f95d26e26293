// Package respapi is the Redis-compatible endpoint of the service. Its command
// CL.THROTTLE is compatible with the Redis module redis-cell, and THROTTLE with
// throttlecrab. HG.* use the policies of the service. It also implements the Redis
// commands that common clients send when they connect. The package implements the
// protocol only; the engine makes the decisions. docs/reference/redis-commands.md is the
// documentation for users.
//
// # How a connection is served
//
// On Linux, event loops serve TCP and unix socket connections: one goroutine polls many
// connections, reads, decides and writes, so that a small request costs two system
// calls and no scheduling. That requires a store that decides immediately. A networked
// store ([Options].Networked), TLS, other systems and [ServerOptions].NoLoops use one
// goroutine for each connection. Pipelined requests are then decided concurrently,
// except for requests of the same key, and answered in order.
package respapi

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// The defaults of the maximums in [Options].
const (
	DefaultMaxClients      = 10_000
	DefaultMaxRequestBytes = 16 << 10
)

// maxArgs is the maximum number of arguments in a request. It is large because COMMAND
// DOCS can name every command, and HG.EXTEND many holds.
const maxArgs = 1024

// Options are the settings of a handler. A field with its zero value has the default in
// its comment; nil options mean all defaults.
type Options struct {
	// Password is the password for AUTH; empty means that no password is required.
	Password string
	// User is the user name for AUTH; empty means “default”, which is also the user if
	// a client sends AUTH with only a password.
	User string
	// Networked is whether a decision needs a round trip to a store on a network.
	Networked bool
	// MaxClients is the maximum number of concurrent connections; 0 means
	// [DefaultMaxClients]. For a further connection, one that is idle, or waits for its
	// client for more than a second, is closed. If there is none, the further connection
	// gets an error and is closed.
	MaxClients int
	// MaxMemoryBytes is the maximum memory of all connections, in bytes, as estimated
	// from their number and their buffers; 0 means [bounded.DefaultBytes]. If it is
	// exceeded, an idle connection, or one with an incomplete request or unread replies,
	// is closed.
	MaxMemoryBytes int64
	// MaxRequestBytes is the maximum size of a request, and also of a transaction, in
	// bytes; 0 means [DefaultMaxRequestBytes]. A connection buffers at most one
	// request, one transaction, 16 KiB of input, 16 KiB of replies, and one further
	// reply. This reply is at most about twenty times as long as its request.
	MaxRequestBytes int
	// MaxBodyBytes is the maximum size of a request to the HTTP API, in bytes, so that a
	// client can end a hold there, too; 0 means that only MaxRequestBytes applies.
	MaxBodyBytes int
	// Tracer starts the spans of decisions; nil means that there are none.
	Tracer Tracer
	// Version is the version of Headgate that INFO reports.
	Version string
	// Log is the logger for panics and connection errors; nil means no log. Its lines
	// contain no key, name or address.
	Log *slog.Logger
}

// Handler runs requests. It is created with [New] and may be used concurrently.
type Handler struct {
	engine                *engine.Engine
	commands              map[string]*command
	user, password        string                      // of Options
	credentials           atomic.Pointer[credentials] // nil if no authentication is required
	networked             bool
	tracer                Tracer // nil if decisions are not traced
	version               string
	log                   *slog.Logger
	bounds                bounds // bounds after authentication
	unauthenticatedBounds bounds
	maxCommit             int // maximum size of a request that ends a hold, in bytes
	since                 time.Time
	now                   func() time.Time // clock of the times in replies
	clients               counters
}

// counters are the open connections, and numbers since the start.
type counters struct {
	open     *bounded.Connections
	accepted atomic.Int64 // also the ID of the most recent connection
	refused  atomic.Int64
}

// New returns a handler that decides requests with e. opts may be nil.
func New(e *engine.Engine, opts *Options) *Handler {
	opts = cmp.Or(opts, &Options{})
	h := &Handler{
		engine:    e,
		commands:  allCommands(),
		user:      cmp.Or(opts.User, defaultUser),
		password:  opts.Password,
		networked: opts.Networked,
		tracer:    opts.Tracer,
		version:   opts.Version,
		log:       opts.Log,
		since:     time.Now(),
		now:       time.Now,
	}
	h.SetUsers(nil)
	h.clients.open = bounded.New(bounded.Limits{
		Connections: cmp.Or(opts.MaxClients, DefaultMaxClients), Bytes: cmp.Or(opts.MaxMemoryBytes, bounded.DefaultBytes),
	})
	size := cmp.Or(opts.MaxRequestBytes, DefaultMaxRequestBytes)
	h.bounds = bounds{request: size, args: maxArgs, bulk: size}
	h.maxCommit = min(size, cmp.Or(opts.MaxBodyBytes, size))
	h.unauthenticatedBounds = bounds{request: min(size, unauthenticatedBytes), args: unauthenticatedArgs, bulk: size}
	h.log = cmp.Or(h.log, slog.New(slog.DiscardHandler))
	return h
}

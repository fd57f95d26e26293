package respapi

import "strings"

// maxNameLength is the maximum length of the name of a command or subcommand, in bytes.
const maxNameLength = 16

// command is a command that clients can send.
type command struct {
	name          string // in lower case
	arity         int    // number of arguments including the name; -n: n or more; 0: run checks the number
	key           int    // index of the argument that is a key; 0: no key
	beforeAuth    bool   // allowed before authentication
	scope         scopes // scope that a user needs; 0 if none
	decides       bool   // makes a decision, possibly concurrently with other requests
	write         bool   // changes the state of a key
	inTransaction bool   // accepted in a transaction
	immediate     bool   // executed immediately in a transaction, not queued
	summary       string
	run           func(*worker)
}

// allCommands returns all commands by name. The commands must not be modified.
func allCommands() map[string]*command {
	return byName(append(holdCommands(),
		command{
			name: "cl.throttle", scope: checkScope, key: 1, decides: true, write: true, inTransaction: true, run: (*worker).clThrottle,
			summary: "CL.THROTTLE key max_burst count_per_period period [quantity]: compatible with redis-cell",
		},
		command{
			name: "throttle", scope: checkScope, key: 1, decides: true, write: true, inTransaction: true, run: (*worker).throttlecrabThrottle,
			summary: "THROTTLE key max_burst count_per_period period [quantity]: compatible with throttlecrab",
		},
		command{
			name: "hg.check", scope: checkScope, arity: -3, key: 2, decides: true, write: true, inTransaction: true, run: (*worker).hgCheck,
			summary: "HG.CHECK policy key [cost]: spends cost units if they are available; several checks are policy key cost each",
		},
		command{
			name: "hg.peek", scope: checkScope, arity: -3, key: 2, decides: true, inTransaction: true, run: (*worker).hgPeek,
			summary: "HG.PEEK policy key [cost]: reports what HG.CHECK would decide; spends nothing",
		},
		command{
			name: "hg.refund", scope: refundScope, arity: -3, key: 2, decides: true, write: true, inTransaction: true, run: (*worker).hgRefund,
			summary: "HG.REFUND policy key [cost]: refunds cost units, at most what was spent",
		},
		command{
			name: "hg.reset", scope: resetScope, arity: -3, key: 2, decides: true, write: true, inTransaction: true, run: (*worker).hgReset,
			summary: "HG.RESET policy key: forgets everything that was spent",
		},
		command{
			name: "hg.trace", arity: 2, inTransaction: true, run: (*worker).hgTrace,
			summary: "HG.TRACE traceparent: sets the parent of the span of the next decision (W3C Trace Context)",
		},
		command{name: "ping", arity: -1, inTransaction: true, run: (*worker).ping, summary: "PING [message]"},
		command{name: "echo", arity: 2, inTransaction: true, run: (*worker).echo, summary: "ECHO message"},
		command{name: "hello", arity: -1, beforeAuth: true, run: (*worker).hello, summary: "HELLO [2|3 [AUTH user password] [SETNAME name]]"},
		command{name: "auth", arity: -2, beforeAuth: true, run: (*worker).auth, summary: "AUTH [user] password"},
		command{name: "select", arity: 2, inTransaction: true, run: (*worker).selectDatabase, summary: "SELECT 0: the only database"},
		command{name: "client", arity: -2, run: (*worker).client, summary: "CLIENT SETINFO|SETNAME|GETNAME|ID|INFO|LIST|NO-EVICT|NO-TOUCH …"},
		command{name: "command", arity: -1, run: (*worker).commandCommand, summary: "COMMAND [COUNT|LIST|INFO|DOCS [name …]|GETKEYS name …]"},
		command{name: "config", arity: -2, run: (*worker).config, summary: "CONFIG GET name …: settings that stock clients request"},
		command{name: "info", arity: -1, run: (*worker).info, summary: "INFO [section …]"},
		command{name: "multi", arity: 1, immediate: true, run: (*worker).multiCommand, summary: "MULTI: EXEC runs the commands that follow"},
		command{name: "exec", arity: 1, immediate: true, run: (*worker).exec, summary: "EXEC"},
		command{name: "discard", arity: 1, immediate: true, run: (*worker).discard, summary: "DISCARD"},
		command{name: "quit", arity: -1, beforeAuth: true, immediate: true, run: (*worker).quit, summary: "QUIT"},
		command{name: "reset", arity: 1, beforeAuth: true, immediate: true, run: (*worker).resetSession, summary: "RESET: restores the state of a new connection"},
	))
}

// holdCommands returns the commands about holds, and those for costs without one.
func holdCommands() []command {
	return []command{
		{
			name: "hg.hold", scope: checkScope, arity: -5, key: 4, decides: true, write: true, inTransaction: true, run: (*worker).hgHold,
			summary: "HG.HOLD id ttl policy key [cost]: spends cost units and opens a hold; * generates an id",
		},
		{
			name: "hg.commit", scope: checkScope, arity: -3, decides: true, write: true, inTransaction: true, run: (*worker).hgCommit,
			summary: "HG.COMMIT hold actual: corrects the charge of a hold; one actual cost for each check",
		},
		{
			name: "hg.cancel", scope: checkScope, arity: 2, decides: true, write: true, inTransaction: true, run: (*worker).hgCancel,
			summary: "HG.CANCEL hold: ends a hold as if nothing had been spent",
		},
		{
			name: "hg.extend", scope: checkScope, arity: -3, decides: true, write: true, inTransaction: true, run: (*worker).hgExtend,
			summary: "HG.EXTEND ttl hold: sets the deadline of one or more holds to ttl from now",
		},
		{
			name: "hg.debit", scope: checkScope, arity: -3, key: 2, decides: true, write: true, inTransaction: true, run: (*worker).hgDebit,
			summary: "HG.DEBIT policy key [cost]: spends cost units, also if they are not available",
		},
		{
			name: "hg.upto", scope: checkScope, arity: -3, key: 2, decides: true, write: true, inTransaction: true, run: (*worker).hgUpTo,
			summary: "HG.UPTO policy key [cost]: spends cost units, or as many as remain",
		},
	}
}

func byName(all []command) map[string]*command {
	m := make(map[string]*command, len(all))
	for i := range all {
		m[all[i].name] = &all[i]
	}
	return m
}

// acceptsArgs reports whether the command accepts n arguments, including its name.
func (c *command) acceptsArgs(n int) bool {
	if c.arity < 0 {
		return n >= -c.arity
	}
	return c.arity == 0 || n == c.arity
}

// command returns the command of the current request, or nil if the command is unknown.
// Because most clients repeat a command, it first compares the name in this request
// with the name in the previous request, which is faster than a lookup.
func (w *worker) command() *command {
	name := w.arg(0)
	if w.lastCommand != nil && string(name) == string(w.lastName[:len(w.lastCommand.name)]) {
		return w.lastCommand
	}
	c := w.h.commands[string(w.folded(name))]
	if c != nil {
		copy(w.lastName[:], name)
		w.lastCommand = c
	}
	return c
}

// folded returns text in lower case, or nil if text is too long for a name. The result is
// valid until the next call.
func (w *worker) folded(text []byte) []byte {
	if len(text) > len(w.foldBuffer) {
		return nil
	}
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		w.foldBuffer[i] = c
	}
	return w.foldBuffer[:len(text)]
}

// equalFold reports whether text equals name, ignoring case.
func equalFold(text []byte, name string) bool {
	return len(text) == len(name) && strings.EqualFold(string(text), name)
}

func (w *worker) noSubcommand(command string) {
	w.fail("ERR unknown subcommand '" + truncate(w.arg(1)) + "' of " + command)
}

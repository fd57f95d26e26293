package respapi

import "strings"

// longestName is the longest name of a command or subcommand, in bytes.
const longestName = 16

// command is one that clients may send.
type command struct {
	name    string // in lower case
	arity   int    // arguments, the name among them; -n: at least n; 0: it sees itself
	key     int    // which argument is a key; 0: none
	open    bool   // for clients, too, that have yet to say who they are
	decides bool   // it makes decisions, together with those that came with it
	write   bool   // it changes what is kept of a key
	queues  bool   // it may be part of a transaction
	steers  bool   // inside of a transaction it is run at once, if it makes sense
	summary string
	run     func(*worker)
}

// allCommands are all of them, by name. A handler keeps them; they are never changed.
func allCommands() map[string]*command {
	return byName(
		command{
			name: "cl.throttle", key: 1, decides: true, write: true, queues: true, run: (*worker).clThrottle,
			summary: "CL.THROTTLE key max_burst count_per_period period [quantity]: as redis-cell",
		},
		command{
			name: "throttle", key: 1, decides: true, write: true, queues: true, run: (*worker).crabThrottle,
			summary: "THROTTLE key max_burst count_per_period period [quantity]: as throttlecrab",
		},
		command{
			name: "hg.check", arity: -3, key: 2, decides: true, write: true, queues: true, run: (*worker).hgCheck,
			summary: "HG.CHECK policy key [cost]: spends the cost, if it is there",
		},
		command{
			name: "hg.peek", arity: -3, key: 2, decides: true, queues: true, run: (*worker).hgPeek,
			summary: "HG.PEEK policy key [cost]: what HG.CHECK would answer; nothing is spent",
		},
		command{
			name: "hg.refund", arity: -3, key: 2, decides: true, write: true, queues: true, run: (*worker).hgRefund,
			summary: "HG.REFUND policy key [cost]: gives the cost back, at most what was spent",
		},
		command{
			name: "hg.reset", arity: -3, key: 2, decides: true, write: true, queues: true, run: (*worker).hgReset,
			summary: "HG.RESET policy key: makes the key as if never used",
		},
		command{name: "ping", arity: -1, queues: true, run: (*worker).ping, summary: "PING [message]"},
		command{name: "echo", arity: 2, queues: true, run: (*worker).echo, summary: "ECHO message"},
		command{name: "hello", arity: -1, open: true, run: (*worker).hello, summary: "HELLO [2|3 [AUTH user password] [SETNAME name]]"},
		command{name: "auth", arity: -2, open: true, run: (*worker).auth, summary: "AUTH [user] password"},
		command{name: "select", arity: 2, queues: true, run: (*worker).selectDatabase, summary: "SELECT 0: there is one database"},
		command{name: "client", arity: -2, run: (*worker).client, summary: "CLIENT SETINFO|SETNAME|GETNAME|ID|INFO|LIST|NO-EVICT|NO-TOUCH …"},
		command{name: "command", arity: -1, run: (*worker).commandCommand, summary: "COMMAND [COUNT|LIST|INFO|DOCS [name …]|GETKEYS name …]"},
		command{name: "config", arity: -2, run: (*worker).config, summary: "CONFIG GET pattern: what stock clients ask for"},
		command{name: "info", arity: -1, run: (*worker).info, summary: "INFO [section …]"},
		command{name: "multi", arity: 1, steers: true, run: (*worker).multi, summary: "MULTI: what follows is run by EXEC"},
		command{name: "exec", arity: 1, steers: true, run: (*worker).exec, summary: "EXEC"},
		command{name: "discard", arity: 1, steers: true, run: (*worker).discard, summary: "DISCARD"},
		command{name: "quit", arity: -1, open: true, steers: true, run: (*worker).quit, summary: "QUIT"},
		command{name: "reset", arity: 1, open: true, steers: true, run: (*worker).resetSession, summary: "RESET: the connection as if new"},
	)
}

func byName(all ...command) map[string]*command {
	m := make(map[string]*command, len(all))
	for i := range all {
		m[all[i].name] = &all[i]
	}
	return m
}

// takes reports whether a request of so many arguments, the name among them, may be one of the command.
func (c *command) takes(n int) bool {
	if c.arity < 0 {
		return n >= -c.arity
	}
	return c.arity == 0 || n == c.arity
}

// command is the one that is asked for, or nil. Mostly it is the last one again, written alike.
func (w *worker) command() *command {
	name := w.arg(0)
	if w.recent != nil && string(name) == string(w.called[:len(w.recent.name)]) {
		return w.recent
	}
	c := w.h.commands[string(w.folded(name))]
	if c != nil {
		copy(w.called[:], name)
		w.recent = c
	}
	return c
}

// folded is text in lower case; text that is too long for a name is none. It is valid until the next call.
func (w *worker) folded(text []byte) []byte {
	if len(text) > len(w.fold) {
		return nil
	}
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		w.fold[i] = c
	}
	return w.fold[:len(text)]
}

// equalFold reports whether text is name, which is in lower case, whatever the case of its letters.
func equalFold(text []byte, name string) bool {
	return len(text) == len(name) && strings.EqualFold(string(text), name)
}

func (w *worker) noSubcommand(of string) {
	w.fail("ERR unknown subcommand '" + clip(w.arg(1)) + "' of " + of)
}

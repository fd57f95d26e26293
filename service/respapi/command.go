package respapi

import (
	"maps"
	"slices"
	"strings"
)

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
	summary string
	run     func(*worker)
}

// allCommands are all of them, by name. A handler keeps them; they are never changed.
func allCommands() map[string]*command {
	return byName(
		command{
			name: "cl.throttle", key: 1, decides: true, write: true, run: (*worker).clThrottle,
			summary: "CL.THROTTLE key max_burst count_per_period period [quantity]: as redis-cell",
		},
		command{
			name: "throttle", key: 1, decides: true, write: true, run: (*worker).crabThrottle,
			summary: "THROTTLE key max_burst count_per_period period [quantity]: as throttlecrab",
		},
		command{
			name: "hg.check", arity: -3, key: 2, decides: true, write: true, run: (*worker).hgCheck,
			summary: "HG.CHECK policy key [cost]: spends the cost, if it is there",
		},
		command{
			name: "hg.peek", arity: -3, key: 2, decides: true, run: (*worker).hgPeek,
			summary: "HG.PEEK policy key [cost]: what HG.CHECK would answer; nothing is spent",
		},
		command{
			name: "hg.refund", arity: -3, key: 2, decides: true, write: true, run: (*worker).hgRefund,
			summary: "HG.REFUND policy key [cost]: gives the cost back, at most what was spent",
		},
		command{
			name: "hg.reset", arity: -3, key: 2, decides: true, write: true, run: (*worker).hgReset,
			summary: "HG.RESET policy key: makes the key as if never used",
		},
		command{name: "ping", arity: -1, run: (*worker).ping, summary: "PING [message]"},
		command{name: "echo", arity: 2, run: (*worker).echo, summary: "ECHO message"},
		command{name: "hello", arity: -1, open: true, run: (*worker).hello, summary: "HELLO [2|3 [AUTH user password] [SETNAME name]]"},
		command{name: "auth", arity: -2, open: true, run: (*worker).auth, summary: "AUTH [user] password"},
		command{name: "select", arity: 2, run: (*worker).selectDatabase, summary: "SELECT 0: there is one database"},
		command{name: "client", arity: -2, run: (*worker).client, summary: "CLIENT SETINFO|SETNAME|GETNAME|ID|INFO|LIST|NO-EVICT|NO-TOUCH …"},
		command{name: "command", arity: -1, run: (*worker).commandCommand, summary: "COMMAND [COUNT|LIST|INFO|DOCS [name …]]"},
		command{name: "config", arity: -2, run: (*worker).config, summary: "CONFIG GET pattern: what stock clients ask for"},
		command{name: "info", arity: -1, run: (*worker).info, summary: "INFO [section …]"},
		command{name: "quit", arity: -1, open: true, run: (*worker).quit, summary: "QUIT"},
		command{name: "reset", arity: 1, open: true, run: (*worker).resetSession, summary: "RESET: the connection as if new"},
	)
}

func byName(all ...command) map[string]*command {
	m := make(map[string]*command, len(all))
	for i := range all {
		m[all[i].name] = &all[i]
	}
	return m
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

// commandCommand is COMMAND and its subcommands.
func (w *worker) commandCommand() {
	if w.args() == 1 {
		w.array(len(w.h.commands))
		for _, name := range slices.Sorted(maps.Keys(w.h.commands)) {
			w.describe(w.h.commands[name])
		}
		return
	}
	switch string(w.folded(w.arg(1))) {
	case "count":
		w.number(int64(len(w.h.commands)))
	case "list":
		w.bulks(slices.Sorted(maps.Keys(w.h.commands)))
	case "info":
		names := w.named()
		w.array(len(names))
		for _, name := range names {
			w.describe(w.h.commands[name])
		}
	case "docs":
		names := slices.DeleteFunc(w.named(), func(name string) bool { return w.h.commands[name] == nil })
		w.fields(len(names))
		for _, name := range names {
			w.document(w.h.commands[name])
		}
	default:
		w.noSubcommand("COMMAND")
	}
}

// named are the commands that a subcommand names, at most as many as there are, or all.
func (w *worker) named() []string {
	if w.args() == 2 {
		return slices.Sorted(maps.Keys(w.h.commands))
	}
	names := make([]string, min(w.args()-2, len(w.h.commands)))
	for i := range names {
		names[i] = string(w.folded(w.arg(i + 2)))
	}
	return names
}

// describe is what COMMAND says of a command: name, arity, flags, where the keys are, and four lists that are empty here.
func (w *worker) describe(c *command) {
	if c == nil {
		w.nullArray()
		return
	}
	arity, flags := c.arity, []string{"fast"}
	if arity == 0 {
		arity = -5
	}
	switch {
	case c.write:
		flags = append(flags, "write", "denyoom")
	case c.key > 0:
		flags = append(flags, "readonly")
	default:
		flags = append(flags, "noscript", "loading", "stale")
	}
	if c.open {
		flags = append(flags, "no_auth")
	}
	w.array(10)
	w.bulk(c.name)
	w.number(int64(arity))
	w.array(len(flags))
	for _, flag := range flags {
		w.simple(flag)
	}
	step := min(c.key, 1)
	w.number(int64(c.key))
	w.number(int64(c.key))
	w.number(int64(step))
	for range 4 {
		w.array(0)
	}
}

// document is what COMMAND DOCS says of a command.
func (w *worker) document(c *command) {
	w.bulk(c.name)
	w.fields(3)
	w.bulk("summary")
	w.bulk(c.summary)
	w.bulk("since")
	w.bulk("1.0.0")
	w.bulk("group")
	if c.key > 0 {
		w.bulk("module")
	} else {
		w.bulk("connection")
	}
}

func (w *worker) noSubcommand(of string) {
	w.fail("ERR unknown subcommand '" + clip(w.arg(1)) + "' of " + of)
}

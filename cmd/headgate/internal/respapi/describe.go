package respapi

import (
	"maps"
	"slices"
	"strings"
)

// commandCommand runs COMMAND and its subcommands.
func (w *worker) commandCommand() {
	if w.args() == 1 {
		w.describeAll(w.sortedCommands())
		return
	}
	switch sub, alone := string(w.folded(w.arg(1))), w.args() == 2; {
	case sub == "count" && alone:
		w.number(int64(len(w.h.commands)))
	case sub == "list" && alone:
		w.bulks(slices.Sorted(maps.Keys(w.h.commands)))
	case sub == "count" || sub == "list":
		w.wrongArity("command|" + sub)
	case sub == "info":
		w.describeAll(w.selectedCommands())
	case sub == "docs":
		w.documentAll(w.selectedCommands())
	case sub == "getkeys" && alone:
		w.wrongArity("command|getkeys")
	case sub == "getkeys":
		w.getKeys()
	default:
		w.noSubcommand("COMMAND")
	}
}

// sortedCommands returns all commands, sorted by name.
func (w *worker) sortedCommands() []*command {
	all := make([]*command, 0, len(w.h.commands))
	for _, name := range slices.Sorted(maps.Keys(w.h.commands)) {
		all = append(all, w.h.commands[name])
	}
	return all
}

// selectedCommands returns the commands that the request names, with nil for each
// unknown name. If the request names none, it returns all commands.
func (w *worker) selectedCommands() []*command {
	if w.args() == 2 {
		return w.sortedCommands()
	}
	found := make([]*command, w.args()-2)
	for i := range found {
		found[i] = w.h.commands[string(w.folded(w.arg(i+2)))]
	}
	return found
}

func (w *worker) describeAll(all []*command) {
	w.array(len(all))
	for _, c := range all {
		w.describe(c)
	}
}

// describe appends the entry for a command in the reply to COMMAND: name, arity, flags,
// key positions, and four empty lists.
func (w *worker) describe(c *command) {
	if c == nil {
		w.null()
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
	if c.beforeAuth {
		flags = append(flags, "no_auth")
	}
	w.array(10)
	w.bulk(c.name)
	w.number(int64(arity))
	w.set(len(flags))
	for _, flag := range flags {
		w.simple(flag)
	}
	step := min(c.key, 1)
	w.number(int64(c.key))
	w.number(int64(c.key))
	w.number(int64(step))
	for range 3 { // ACL categories, tips, key specifications
		w.set(0)
	}
	w.array(0) // subcommands
}

// documentAll appends a map with the documentation of commands, without duplicates and
// unknown commands (nil).
func (w *worker) documentAll(all []*command) {
	var unique []*command
	for _, c := range all {
		if c != nil && !slices.Contains(unique, c) {
			unique = append(unique, c)
		}
	}
	w.fields(len(unique))
	for _, c := range unique {
		w.document(c)
	}
}

// document appends the documentation of a command in the reply to COMMAND DOCS.
func (w *worker) document(c *command) {
	summary, group, fields := c.summary, "connection", 3
	if c.decides {
		_, summary, _ = strings.Cut(summary, ": ") // the arguments come before the colon
		group, fields = "module", 4
	}
	w.bulk(c.name)
	w.fields(fields)
	w.bulk("summary")
	w.bulk(summary)
	w.bulk("since")
	w.bulk("1.0.0")
	w.bulk("group")
	w.bulk(group)
	if c.decides {
		w.bulk("arguments")
		w.arguments(c)
	}
}

// arguments appends the list of the arguments of a command that decides. It takes
// them from the command's summary. redis-cli shows them as hints.
func (w *worker) arguments(c *command) {
	syntax, _, _ := strings.Cut(c.summary, ":")
	names := strings.Fields(syntax)[1:]
	w.array(len(names))
	for _, text := range names {
		name, kind, fields := strings.Trim(text, "[]"), "integer", 2
		switch name {
		case "key":
			kind = name
		case "policy", "id", "ttl", "hold":
			kind = "string"
		}
		if name != text {
			fields = 3
		}
		w.fields(fields)
		w.bulk("name")
		w.bulk(name)
		w.bulk("type")
		w.bulk(kind)
		if name != text {
			w.bulk("flags")
			w.set(1)
			w.simple("optional")
		}
	}
}

// getKeys runs COMMAND GETKEYS: its arguments are another request, and it returns the
// keys in that request. HG.* with several checks has a key for each of them.
func (w *worker) getKeys() {
	switch c := w.h.commands[string(w.folded(w.arg(2)))]; {
	case c == nil:
		w.fail("ERR Invalid command specified")
	case c.key == 0:
		w.fail("ERR The command has no key arguments")
	case c.key+2 >= w.args():
		w.fail("ERR Invalid number of arguments specified for command")
	default:
		first, step := c.key+2, w.args()
		if strings.HasPrefix(c.name, "hg.") {
			step = 3
		}
		w.array((w.args()-1-first)/step + 1)
		for i := first; i < w.args(); i += step {
			w.bulk(string(w.arg(i)))
		}
	}
}

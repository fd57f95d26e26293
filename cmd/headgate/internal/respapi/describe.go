package respapi

import (
	"maps"
	"slices"
	"strings"
)

// commandCommand is COMMAND and its subcommands.
func (w *worker) commandCommand() {
	if w.args() == 1 {
		w.describeAll(w.allNamed())
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
		w.describeAll(w.named())
	case sub == "docs":
		w.documentAll(w.named())
	case sub == "getkeys" && alone:
		w.wrongArity("command|getkeys")
	case sub == "getkeys":
		w.getKeys()
	default:
		w.noSubcommand("COMMAND")
	}
}

// allNamed are all commands, by their names.
func (w *worker) allNamed() []*command {
	all := make([]*command, 0, len(w.h.commands))
	for _, name := range slices.Sorted(maps.Keys(w.h.commands)) {
		all = append(all, w.h.commands[name])
	}
	return all
}

// named are the commands that a subcommand names, nil where there is none of a name; all if it names none.
func (w *worker) named() []*command {
	if w.args() == 2 {
		return w.allNamed()
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

// describe is what COMMAND says of a command: name, arity, flags, where the keys are, and four lists that are empty here.
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
	if c.open {
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
	for range 3 { // categories, tips, and where keys are that these numbers do not tell of
		w.set(0)
	}
	w.array(0) // subcommands
}

// documentAll is a map: a command that is named twice is in it once, and one that is not there is not.
func (w *worker) documentAll(all []*command) {
	var once []*command
	for _, c := range all {
		if c != nil && !slices.Contains(once, c) {
			once = append(once, c)
		}
	}
	w.fields(len(once))
	for _, c := range once {
		w.document(c)
	}
}

// document is what COMMAND DOCS says of a command.
func (w *worker) document(c *command) {
	summary, group, fields := c.summary, "connection", 3
	if c.key > 0 {
		_, summary, _ = strings.Cut(summary, ": ") // before it are the arguments
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
	if c.key > 0 {
		w.bulk("arguments")
		w.arguments(c)
	}
}

// arguments are those of a command that has a key, as its summary names them: redis-cli shows them while one types.
func (w *worker) arguments(c *command) {
	syntax, _, _ := strings.Cut(c.summary, ":")
	names := strings.Fields(syntax)[1:]
	w.array(len(names))
	for _, shown := range names {
		name, kind, fields := strings.Trim(shown, "[]"), "integer", 2
		if name == "key" {
			kind = name
		} else if name == "policy" {
			kind = "string"
		}
		if name != shown {
			fields = 3
		}
		w.fields(fields)
		w.bulk("name")
		w.bulk(name)
		w.bulk("type")
		w.bulk(kind)
		if name != shown {
			w.bulk("flags")
			w.set(1)
			w.simple("optional")
		}
	}
}

// getKeys is COMMAND GETKEYS: which arguments of the request behind it are keys.
func (w *worker) getKeys() {
	switch c := w.h.commands[string(w.folded(w.arg(2)))]; {
	case c == nil:
		w.fail("ERR Invalid command specified")
	case c.key == 0:
		w.fail("ERR The command has no key arguments")
	case c.key+2 >= w.args():
		w.fail("ERR Invalid number of arguments specified for command")
	default:
		w.array(1)
		w.bulk(string(w.arg(c.key + 2)))
	}
}

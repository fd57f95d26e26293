package respapi

import (
	"fmt"
	"time"
)

const errClientName = "ERR Client names cannot contain spaces, newlines or special characters."

// printable reports whether text may be a client's name: not long, and without blanks and what does not print.
func printable(text []byte) bool {
	if len(text) > 128 {
		return false
	}
	for _, c := range text {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

// client is CLIENT and its subcommands.
func (w *worker) client() {
	switch sub, n := string(w.folded(w.arg(1))), w.args(); {
	case sub == "id" && n == 2:
		w.number(w.s.id)
	case sub == "setname" && n == 3:
		w.setName()
	case sub == "getname" && n == 2:
		w.getName()
	case sub == "setinfo" && n == 4:
		w.setInfo()
	case sub == "info" && n == 2:
		w.text(w.clientLine())
	case sub == "list":
		w.text(w.clientLine())
	case (sub == "no-evict" || sub == "no-touch") && n == 3:
		w.onOrOff()
	case sub == "tracking" && n >= 3 && equalFold(w.arg(2), "off"):
		w.ok()
	case sub == "tracking":
		w.fail("ERR client tracking is not supported: no values are kept here that a client could cache; turn its cache off")
	default:
		w.noSubcommand("CLIENT, or its arguments are wrong")
	}
}

func (w *worker) setName() {
	if !printable(w.arg(2)) {
		w.fail(errClientName)
		return
	}
	w.s.name = string(w.arg(2))
	w.ok()
}

func (w *worker) getName() {
	if w.s.name == "" {
		w.null()
		return
	}
	w.bulk(w.s.name)
}

// setInfo is CLIENT SETINFO lib-name|lib-ver text.
func (w *worker) setInfo() {
	which := 0
	switch {
	case equalFold(w.arg(2), "lib-name"):
	case equalFold(w.arg(2), "lib-ver"):
		which = 1
	default:
		w.fail("ERR Unrecognized option '" + clip(w.arg(2)) + "'")
		return
	}
	if !printable(w.arg(3)) {
		w.fail("ERR " + [...]string{"lib-name", "lib-ver"}[which] + " cannot contain spaces, newlines or special characters.")
		return
	}
	w.s.library[which] = string(w.arg(3))
	w.ok()
}

func (w *worker) onOrOff() {
	if !equalFold(w.arg(2), "on") && !equalFold(w.arg(2), "off") {
		w.fail("ERR syntax error")
		return
	}
	w.ok()
}

// clientLine is the client itself, as CLIENT INFO writes it. Of the others it is told nothing: they are none of its business.
func (w *worker) clientLine() string {
	s := w.s
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s age=%d idle=0 flags=N db=0 cmd=client user=%s lib-name=%s lib-ver=%s resp=%d\n",
		s.id, s.addrs[0], s.addrs[1], s.name, int64(time.Since(s.since)/time.Second), s.user, s.library[0], s.library[1], s.version)
}

package respapi

import (
	"fmt"
	"time"
)

const errClientName = "ERR Client names cannot contain spaces, newlines or special characters."

// printable reports whether text is valid as a client name: at most 128 printable ASCII
// characters without spaces.
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

// client runs CLIENT and its subcommands.
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
		w.fail("ERR client tracking is not supported; disable client-side caching")
	default:
		w.noSubcommand("CLIENT, or wrong arguments")
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

// setInfo runs CLIENT SETINFO lib-name|lib-ver text.
func (w *worker) setInfo() {
	which := 0
	switch {
	case equalFold(w.arg(2), "lib-name"):
	case equalFold(w.arg(2), "lib-ver"):
		which = 1
	default:
		w.fail("ERR Unrecognized option '" + truncate(w.arg(2)) + "'")
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

// clientLine returns the reply to CLIENT INFO and CLIENT LIST: one line about the
// client that sent the command. Clients get no information about other clients.
func (w *worker) clientLine() string {
	s := w.s
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s age=%d idle=0 flags=N db=0 cmd=client user=%s lib-name=%s lib-ver=%s resp=%d\n",
		s.id, s.addrs[0], s.addrs[1], s.name, int64(time.Since(s.since)/time.Second), s.user, s.library[0], s.library[1], s.version)
}

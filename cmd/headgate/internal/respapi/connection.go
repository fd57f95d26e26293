package respapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"
)

const defaultUser = "default"

// compatibleVersion is the version of Redis whose replies these are. Clients ask for it to know what they may send.
const compatibleVersion = "7.2.0"

const errNoInteger = "ERR value is not an integer or out of range"

// login is what clients must know. Only digests are compared, so that no length is told by the time it takes.
type login struct{ user, password [sha256.Size]byte }

func newLogin(user, password string) *login {
	if password == "" {
		return nil
	}
	if user == "" {
		user = defaultUser
	}
	return &login{sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))}
}

func (l *login) admits(user, password []byte) bool {
	u, p := sha256.Sum256(user), sha256.Sum256(password)
	return subtle.ConstantTimeCompare(u[:], l.user[:])&subtle.ConstantTimeCompare(p[:], l.password[:]) == 1
}

// mostFailures is how many wrong passwords end a connection: a pipeline of them would be tried by the million.
const mostFailures = 10

// admit lets the client in, or says why not. Where there is no password the user default has any, as in Redis.
func (w *worker) admit(user, password []byte) bool {
	if l := w.h.login; l == nil && string(user) != defaultUser || l != nil && !l.admits(user, password) {
		w.fail("WRONGPASS invalid username-password pair or user is disabled.")
		w.s.failures++
		w.s.closing = w.s.failures >= mostFailures
		return false
	}
	w.s.welcome, w.s.user = true, clip(user)
	return true
}

// auth is AUTH [user] password.
func (w *worker) auth() {
	switch user := []byte(defaultUser); {
	case w.args() > 3:
		w.fail("ERR syntax error")
		return
	case w.args() == 2 && w.h.login == nil:
		w.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
		return
	case w.args() == 2 && !w.admit(user, w.arg(1)), w.args() == 3 && !w.admit(w.arg(1), w.arg(2)):
		return
	}
	w.ok()
}

// hello is HELLO [version [AUTH user password] [SETNAME name]].
func (w *worker) hello() {
	version := w.s.version
	if w.args() > 1 {
		n, ok := parseInt(w.arg(1))
		if !ok {
			w.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			w.fail("NOPROTO unsupported protocol version")
			return
		}
		version = int8(n)
	}
	name, named, ok := w.helloOptions()
	if !ok {
		return
	}
	if !w.s.welcome {
		w.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> " +
			"option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if named {
		w.s.name = name
	}
	w.s.version = version
	w.greet()
}

// helloOptions reads what follows the version, and lets the client in if it says who it is.
func (w *worker) helloOptions() (name string, named, ok bool) {
	var user, password []byte
	for i := 2; i < w.args(); {
		rest := w.args() - i - 1
		switch option := w.arg(i); {
		case equalFold(option, "auth") && rest >= 2:
			user, password = w.arg(i+1), w.arg(i+2)
			i += 3
		case equalFold(option, "setname") && rest >= 1:
			if !printable(w.arg(i + 1)) {
				w.fail(errClientName)
				return "", false, false
			}
			name, named = string(w.arg(i+1)), true
			i += 2
		default:
			w.fail("ERR Syntax error in HELLO option '" + clip(option) + "'")
			return "", false, false
		}
	}
	return name, named, user == nil || w.admit(user, password)
}

// greet says whom the client speaks with.
func (w *worker) greet() {
	w.fields(7)
	w.bulk("server")
	w.bulk("redis")
	w.bulk("version")
	w.bulk(compatibleVersion)
	w.bulk("proto")
	w.number(int64(w.s.version))
	w.bulk("id")
	w.number(w.s.id)
	w.bulk("mode")
	w.bulk("standalone")
	w.bulk("role")
	w.bulk("master")
	w.bulk("modules")
	w.array(0)
}

func (w *worker) ping() {
	switch w.args() {
	case 1:
		w.simple("PONG")
	case 2:
		w.echo()
	default:
		w.wrongArity("ping")
	}
}

func (w *worker) echo() {
	text := w.arg(1)
	w.out = appendNumber(w.out, '$', int64(len(text)))
	w.out = append(append(w.out, text...), crlf...)
}

func (w *worker) selectDatabase() {
	switch n, ok := parseInt(w.arg(1)); {
	case !ok:
		w.fail(errNoInteger)
	case n != 0:
		w.fail("ERR DB index is out of range")
	default:
		w.ok()
	}
}

func (w *worker) quit() {
	w.ok()
	w.s.closing = true
}

func (w *worker) resetSession() {
	w.s.reset(w.h)
	w.simple("RESET")
}

// config is CONFIG GET, for redis-benchmark and for clients that look at how a server keeps its data: not at all.
func (w *worker) config() {
	if !equalFold(w.arg(1), "get") {
		w.fail("ERR there is nothing to configure here but by the configuration of the service; CONFIG GET alone is answered")
		return
	}
	var names []string
	for i := 2; i < w.args(); i++ {
		if name := string(w.folded(w.arg(i))); configured[name] != "" {
			names = append(names, name)
		}
	}
	w.fields(len(names))
	for _, name := range names {
		w.bulk(name)
		w.bulk(strings.TrimPrefix(configured[name], "="))
	}
}

// configured is what CONFIG GET tells, each behind an equals sign.
var configured = map[string]string{"save": "=", "appendonly": "=no", "databases": "=1", "maxmemory": "=0", "timeout": "=0"}

// info is INFO, whatever its sections: it is short.
func (w *worker) info() {
	h := w.h
	w.text(fmt.Sprintf("# Server\r\nredis_version:%s\r\nserver_name:headgate\r\nheadgate_version:%s\r\nredis_mode:standalone\r\n"+
		"uptime_in_seconds:%d\r\n\r\n# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\n\r\n# Persistence\r\nloading:0\r\n\r\n"+
		"# Stats\r\ntotal_connections_received:%d\r\nrejected_connections:%d\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"+
		"# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\n",
		compatibleVersion, h.version, int64(time.Since(h.since)/time.Second), h.clients.now.Load(), h.clients.most,
		h.clients.all.Load(), h.clients.refused.Load()))
}

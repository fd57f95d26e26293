package respapi

import (
	"fmt"
	"strings"
	"time"
)

const defaultUser = "default"

// compatibleVersion is the version of Redis that INFO and HELLO report. Clients use it to
// choose commands.
const compatibleVersion = "7.2.0"

const errNotAnInteger = "ERR value is not an integer or out of range"

// maxAuthFailures is the number of wrong passwords after which a connection is closed.
// Without this limit, a pipeline could try millions of passwords.
const maxAuthFailures = 10

// authenticate checks the user and password. It returns false and replies with an error
// if they are wrong. If no password is configured, the user “default” can use any
// password, as in Redis.
func (w *worker) authenticate(user, password []byte) bool {
	scopes, ok := allScopes, string(user) == defaultUser
	if l := w.h.credentials.Load(); l != nil {
		scopes, ok = l.match(user, password)
	}
	if !ok {
		w.fail("WRONGPASS invalid username-password pair or user is disabled.")
		w.s.failures++
		w.s.closing = w.s.failures >= maxAuthFailures
		return false
	}
	w.s.authenticated, w.s.scopes, w.s.user = true, scopes, truncate(user)
	return true
}

// auth runs AUTH [user] password.
func (w *worker) auth() {
	switch user := []byte(defaultUser); {
	case w.args() > 3:
		w.fail("ERR syntax error")
		return
	case w.args() == 2 && w.h.credentials.Load() == nil:
		w.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
		return
	case w.args() == 2 && !w.authenticate(user, w.arg(1)), w.args() == 3 && !w.authenticate(w.arg(1), w.arg(2)):
		return
	}
	w.ok()
}

// hello runs HELLO [version [AUTH user password] [SETNAME name]].
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
	if !w.s.authenticated {
		w.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> " +
			"option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if named {
		w.s.name = name
	}
	w.s.version = version
	w.writeHello()
}

// helloOptions parses the options of HELLO, and authenticates the client if they
// include AUTH. ok is false if helloOptions has replied with an error. named reports
// whether the SETNAME option was given; its value is name.
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
			w.fail("ERR Syntax error in HELLO option '" + truncate(option) + "'")
			return "", false, false
		}
	}
	return name, named, user == nil || w.authenticate(user, password)
}

// writeHello writes the reply of HELLO.
func (w *worker) writeHello() {
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
		w.fail(errNotAnInteger)
	case n != 0:
		w.fail("ERR DB index is out of range: there is only database 0; select it in the settings of the client")
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

// config runs CONFIG GET, which redis-benchmark and some clients send.
func (w *worker) config() {
	if !equalFold(w.arg(1), "get") {
		w.fail("ERR only CONFIG GET is supported; change the configuration of the service instead")
		return
	}
	var names []string
	for i := 2; i < w.args(); i++ {
		if name := string(w.folded(w.arg(i))); configValues[name] != "" {
			names = append(names, name)
		}
	}
	w.fields(len(names))
	for _, name := range names {
		w.bulk(name)
		w.bulk(strings.TrimPrefix(configValues[name], "="))
	}
}

// configValues are the replies to CONFIG GET, each after an equals sign. The sign
// distinguishes an empty value from an unknown name.
var configValues = map[string]string{"save": "=", "appendonly": "=no", "databases": "=1", "maxmemory": "=0", "timeout": "=0"}

// info runs INFO. It ignores the requested sections, because the text is short.
func (w *worker) info() {
	h := w.h
	w.text(fmt.Sprintf("# Server\r\nredis_version:%s\r\nserver_name:headgate\r\nheadgate_version:%s\r\nredis_mode:standalone\r\n"+
		"uptime_in_seconds:%d\r\n\r\n# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\n\r\n# Persistence\r\nloading:0\r\n\r\n"+
		"# Stats\r\ntotal_connections_received:%d\r\nrejected_connections:%d\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"+
		"# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\n",
		compatibleVersion, h.version, int64(time.Since(h.since)/time.Second), h.clients.open.Open(), h.clients.open.MaxOpen(),
		h.clients.accepted.Load(), h.clients.refused.Load()))
}

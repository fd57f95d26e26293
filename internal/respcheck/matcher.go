package respcheck

// matcher matches replies with requests. Every request has one reply, with the
// exceptions of the publish-subscribe commands. Replies whose shape the client trusts
// are checked too.
type matcher struct {
	sent, answered uint64
	resp3          bool // whether the last HELLO requested RESP3
	pubsub         bool // whether a publish-subscribe command was sent
	specials       [32]special
	first, count   int // queue of the specials
	confirmations  int // confirmations of a SUBSCRIBE that are still missing
	wantPong       bool
}

// special is a pending request whose reply is checked.
type special struct {
	kind     specialKind
	number   uint64 // number of the request
	channels int    // of a SUBSCRIBE
}

type specialKind uint8

const (
	plain        specialKind = iota
	role                     // ROLE: an array of at least one element
	primary                  // SENTINEL GET-MASTER-ADDR-BY-NAME: null, or an array of at least two
	subscribes               // SUBSCRIBE: a push message for each channel, or an error
	unsubscribes             // UNSUBSCRIBE: push messages or an error; rueidis then sends PING
)

// request registers a request.
func (m *matcher) request(q *requests) error {
	s := special{kind: m.kindOf(q), number: m.sent, channels: int(q.args - 1)}
	m.sent++
	if s.kind == plain {
		return nil
	}
	if m.count == len(m.specials) {
		return errRequest
	}
	m.specials[(m.first+m.count)%len(m.specials)] = s
	m.count++
	return nil
}

func (m *matcher) kindOf(q *requests) specialKind {
	command, argument := &q.words[0], &q.words[1]
	switch {
	case command.is("EVALSHA"):
	case command.is("HELLO"):
		m.resp3 = argument.is("3")
	case command.is("ROLE"):
		return role
	case command.is("SENTINEL") && argument.is("GET-MASTER-ADDR-BY-NAME"):
		return primary
	case command.is("SUBSCRIBE"), command.is("PSUBSCRIBE"), command.is("SSUBSCRIBE"):
		m.pubsub = true
		return subscribes
	case command.is("UNSUBSCRIBE"), command.is("PUNSUBSCRIBE"), command.is("SUNSUBSCRIBE"):
		m.pubsub = true
		return unsubscribes
	}
	return plain
}

// pending returns the oldest request without a reply, if it is special.
func (m *matcher) pending() special {
	if s := m.specials[m.first]; m.count > 0 && s.number == m.answered {
		return s
	}
	return special{}
}

// answer removes the oldest request.
func (m *matcher) answer(s special) {
	m.answered++
	if s.kind != plain {
		m.first = (m.first + 1) % len(m.specials)
		m.count--
	}
}

// message checks a complete message.
func (m *matcher) message(msg *message) error {
	if m.isPush(msg) {
		return m.push(msg)
	}
	if m.answered == m.sent {
		return errUnsolicited
	}
	if msg.isError() && msg.malformedRedirection() {
		return errRedirection
	}
	s, err := m.match(msg, m.pending())
	if err != nil {
		return err
	}
	m.answer(s)
	return nil
}

// isPush reports whether a message is not a reply. In RESP2, all arrays of a connection
// that is used for publish-subscribe are push messages, except the reply to PING.
func (m *matcher) isPush(msg *message) bool {
	return msg.kind == '>' || m.pubsub && !m.resp3 && msg.length > 0 && !msg.text[0].is("pong")
}

// match checks a reply to the request s and returns the request that it answers.
func (m *matcher) match(msg *message, s special) (answered special, err error) {
	switch {
	case m.wantPong:
		m.wantPong = false
		if !msg.isPong() {
			return s, errMismatch
		}
	case s.kind == role && msg.isShort(1), s.kind == primary && msg.isShort(2), s.kind == subscribes && !msg.isError():
		return s, errMismatch
	case s.kind == unsubscribes && msg.isPong():
		// The confirmations were push messages. This is the reply to the PING.
		m.answer(s)
		if s = m.pending(); s.kind != plain || m.answered == m.sent {
			return s, errMismatch
		}
	case s.kind == unsubscribes:
		if m.wantPong = true; !msg.isError() || msg.text[0].cut {
			return s, errMismatch
		}
	}
	return s, nil
}

// isShort reports whether a message is an array or a set with fewer than the given
// number of elements.
func (msg *message) isShort(elements int64) bool {
	return (msg.kind == '*' || msg.kind == '~') && msg.length < elements
}

// push checks a push message. It follows rueidis, which takes a confirmation of a
// subscription as the reply to the oldest request.
func (m *matcher) push(msg *message) error {
	if msg.length < 2 {
		return nil
	}
	kind, channel := &msg.text[0], &msg.text[1]
	switch {
	case kind.is("subscribe"), kind.is("psubscribe"), kind.is("ssubscribe"):
		if m.confirmations > 0 {
			m.confirmations--
			return nil
		}
		s := m.pending()
		if s.kind != subscribes || m.wantPong {
			return errMismatch
		}
		m.confirmations = s.channels - 1
		m.answer(s)
	case kind.is("unsubscribe"), kind.is("punsubscribe"), kind.is("sunsubscribe"):
		m.confirmations = max(0, m.confirmations-1)
	case kind.is("message") && msg.length >= 3:
		words := msg.spaces + 1
		if channel.is("+switch-master") && words < 5 || (channel.is("+sentinel") || channel.is("+reboot")) && words < 4 {
			return errEvent
		}
	}
	return nil
}

func (msg *message) isError() bool { return msg.kind == '-' || msg.kind == '!' }

// isPong reports whether rueidis takes the message as the reply to the PING that it
// sends after UNSUBSCRIBE.
func (msg *message) isPong() bool {
	t := &msg.text[0]
	switch {
	case msg.kind == '-':
		return t.hasPrefix("LOADING") || t.hasPrefix("BUSY") || t.contains("'ping'")
	case msg.length > 0:
		return t.is("pong")
	}
	return msg.kind == '+' && t.is("PONG")
}

func (t *text) contains(s string) bool {
	for i := 0; i+len(s) <= t.n; i++ {
		if string(t.bytes[i:i+len(s)]) == s {
			return true
		}
	}
	return false
}

// malformedRedirection reports whether an error is a redirection without an address,
// which clients read without checking that it exists.
func (msg *message) malformedRedirection() bool {
	t, spaces := &msg.text[0], msg.spaces
	start := 0
	if t.hasPrefix("ERR ") {
		start, spaces = len("ERR "), spaces-1
	}
	for _, prefix := range [...]string{"MOVED", "ASK", "REDIRECT"} {
		if end := start + len(prefix); t.n >= end && string(t.bytes[start:end]) == prefix {
			return spaces < 2 && (prefix != "REDIRECT" || spaces < 1)
		}
	}
	return false
}

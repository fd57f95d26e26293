package respapi

// transaction is what a client has asked for since MULTI.
type transaction struct {
	requests []byte // one behind the other, as arrays
	count    int
	broken   bool // one was refused, and EXEC is to run none
}

// multi is MULTI. Clients whose pipelines are transactions unless they are told otherwise work by it: what they send is run at EXEC,
// one request behind the other. Others' requests may come between them.
func (w *worker) multi() {
	if w.s.multi != nil {
		w.fail("ERR MULTI calls can not be nested")
		return
	}
	w.s.multi = new(transaction)
	w.ok()
}

// enqueue keeps a request for EXEC, or says why it will not be run. c may be nil.
func (w *worker) enqueue(c *command) {
	m := w.s.multi
	switch {
	case c == nil:
		w.unknown()
	case !c.takes(w.args()):
		w.wrongArity(c.name)
	case !c.queues:
		w.fail("ERR Command not allowed inside a transaction")
	case m.broken:
		w.simple("QUEUED") // as Redis says, though EXEC will run none
		return
	default:
		if m.add(w); len(m.requests) <= w.h.known.request {
			w.simple("QUEUED")
			return
		}
		w.fail("ERR too big transaction")
	}
	m.broken, m.requests = true, nil
}

// add writes the request anew: its own bytes may be a line, from which the quotes are gone.
func (m *transaction) add(w *worker) {
	m.count++
	m.requests = appendNumber(m.requests, '*', int64(w.args()))
	for i := range w.args() {
		arg := w.arg(i)
		m.requests = appendNumber(m.requests, '$', int64(len(arg)))
		m.requests = append(append(m.requests, arg...), crlf...)
	}
}

// exec is EXEC. Its reply is an array of the replies to what was asked for.
func (w *worker) exec() {
	m := w.s.multi
	w.s.multi = nil
	switch {
	case m == nil:
		w.fail("ERR EXEC without MULTI")
		return
	case m.broken:
		w.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	w.array(m.count)
	for rest := m.requests; len(rest) > 0; {
		n, err := w.s.reader.next(rest, w.h.known)
		if n == 0 || err != nil {
			panic("a request that was kept cannot be read")
		}
		w.in, rest = rest[:n], rest[n:]
		w.runNow(w.command())
	}
	w.settle()
}

// discard is DISCARD.
func (w *worker) discard() {
	if w.s.multi == nil {
		w.fail("ERR DISCARD without MULTI")
		return
	}
	w.s.multi = nil
	w.ok()
}

package respapi

// transaction holds the requests that a client has queued since MULTI.
type transaction struct {
	requests []byte // RESP arrays, concatenated
	count    int
	failed   bool // whether a request was rejected, so that EXEC runs none
}

// multiCommand runs MULTI. Headgate supports transactions because some clients send
// pipelines as transactions by default. EXEC runs the queued requests in order, but not
// atomically: requests of other clients may run between them.
func (w *worker) multiCommand() {
	if w.s.multi != nil {
		w.fail("ERR MULTI calls can not be nested")
		return
	}
	w.s.multi = new(transaction)
	w.ok()
}

// enqueue queues the current request for EXEC, or replies with an error. c is nil if
// the command is unknown.
func (w *worker) enqueue(c *command) {
	m := w.s.multi
	switch {
	case c == nil:
		w.unknownCommand()
	case !c.acceptsArgs(w.args()):
		w.wrongArity(c.name)
	case !w.permits(c.scope):
		w.noPermission(c.name)
	case !c.inTransaction:
		w.fail("ERR Command not allowed inside a transaction")
	case m.failed:
		w.simple("QUEUED") // like Redis, although EXEC will not run any request
		return
	default:
		if m.add(w); len(m.requests) <= w.h.bounds.request {
			w.simple("QUEUED")
			return
		}
		w.fail("ERR too big transaction")
	}
	m.failed, m.requests = true, nil
}

// add encodes the request again, as an array. The original bytes of an inline request
// can't be parsed again, because split has removed the quotes.
func (m *transaction) add(w *worker) {
	m.count++
	m.requests = appendNumber(m.requests, '*', int64(w.args()))
	for i := range w.args() {
		arg := w.arg(i)
		m.requests = appendNumber(m.requests, '$', int64(len(arg)))
		m.requests = append(append(m.requests, arg...), crlf...)
	}
}

// exec runs EXEC. Its reply is an array that contains the replies to all queued
// requests.
func (w *worker) exec() {
	m := w.s.multi
	w.s.multi = nil
	switch {
	case m == nil:
		w.fail("ERR EXEC without MULTI")
		return
	case m.failed:
		w.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	w.array(m.count)
	for rest := m.requests; len(rest) > 0; {
		n, err := w.s.reader.next(rest, w.h.bounds)
		if n == 0 || err != nil {
			panic("queued request cannot be parsed")
		}
		w.in, rest = rest[:n], rest[n:]
		w.runNow(w.command())
	}
	w.flush()
}

// discard runs DISCARD.
func (w *worker) discard() {
	if w.s.multi == nil {
		w.fail("ERR DISCARD without MULTI")
		return
	}
	w.s.multi = nil
	w.ok()
}

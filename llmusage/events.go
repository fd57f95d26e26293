package llmusage

// events reads a stream of server-sent events in pieces of any size. It passes the data
// of each event to a scanner, without keeping it.
type events struct {
	scanner *scanner
	line    lineState
	prefix  int  // bytes of “data:” that the line has so far
	blank   bool // whether the line is empty so far
	lastCR  bool // whether the last byte was a carriage return
	count   int64
	hasData bool // whether the event has data
}

// lineState is the meaning of the rest of a line.
type lineState uint8

const (
	atPrefix   lineState = iota // the name of a field
	atData                      // the data of an event
	ignoreLine                  // another field, or a comment
)

const dataPrefix = "data:"

func newEvents(s *scanner) *events { return &events{scanner: s, blank: true} }

// feed reads the next bytes of the stream.
func (e *events) feed(p []byte) {
	begin := 0 // of the data in p that was not passed to the scanner
	for i, c := range p {
		if c == '\n' || c == '\r' {
			if e.line == atData {
				e.scanner.feed(p[begin:i])
			}
			if !(c == '\n' && e.lastCR) {
				e.endLine()
			}
			e.lastCR = c == '\r'
			continue
		}
		e.lastCR, e.blank = false, false
		switch {
		case e.line != atPrefix:
		case c != dataPrefix[e.prefix]:
			e.line = ignoreLine
		default:
			if e.prefix++; e.prefix == len(dataPrefix) {
				e.line, begin, e.hasData = atData, i+1, true
			}
		}
	}
	if e.line == atData {
		e.scanner.feed(p[begin:])
	}
}

// endLine ends a line. An empty line ends an event.
func (e *events) endLine() {
	if e.blank {
		if e.hasData {
			e.count++
		}
		e.hasData = false
		e.scanner.reset()
	}
	e.line, e.prefix, e.blank = atPrefix, 0, true
}

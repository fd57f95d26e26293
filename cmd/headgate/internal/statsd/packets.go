package statsd

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// packets collects lines and writes them in packets of at most MaxPacketBytes.
type packets struct {
	client    *Client
	values    map[string]uint64
	unlimited bool // whether a line may be longer than a packet
	buf       []byte
	line      []byte
	names     []string // counters in buf
}

// counter adds the difference to the value that was sent before, if there is one. A
// counter that is less than before has begun again at 0.
func (p *packets) counter(name string, value uint64) error {
	difference := value - p.client.sent[name]
	if value < p.client.sent[name] {
		difference = value
	}
	if difference == 0 {
		return nil
	}
	p.begin(name)
	p.line = append(strconv.AppendUint(p.line, difference, 10), "|c"...)
	return p.end(name)
}

// timer adds the sample of a timer. The sampling rate is the share of all events.
func (p *packets) timer(t *Timer) error {
	for _, d := range t.Values {
		p.begin(t.Name)
		p.line = append(appendMillis(p.line, d), "|ms"...)
		if n := uint64(len(t.Values)); n < t.Events {
			p.line = append(p.line, "|@"...)
			p.line = strconv.AppendFloat(p.line, float64(n)/float64(t.Events), 'g', 6, 64)
		}
		if err := p.end(""); err != nil {
			return err
		}
	}
	return nil
}

// appendMillis appends a duration in milliseconds, rounded to microseconds.
func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, math.Round(float64(d)/1e3)/1e3, 'f', -1, 64)
}

// begin begins a line with the name of a metric.
func (p *packets) begin(name string) {
	p.line = append(p.line[:0], sanitizeName(name)...)
	p.line = append(append(p.line, p.client.inName...), ':')
}

// sanitizeName replaces the characters that end a name. Names of rules can contain
// values that clients choose.
func sanitizeName(name string) string {
	isInvalid := func(r rune) bool { return r < ' ' || r == ':' || r == '|' || r == 0x7f }
	if strings.IndexFunc(name, isInvalid) < 0 {
		return name
	}
	return strings.Map(func(r rune) rune {
		if isInvalid(r) {
			return '_'
		}
		return r
	}, name)
}

// end adds the line to the packet, and writes the packet first if the line does not fit.
// A line that fits in no packet is left out. counter is the name of the counter in the
// line, or empty.
func (p *packets) end(counter string) error {
	p.line = append(append(p.line, p.client.after...), '\n')
	if len(p.line) > MaxPacketBytes && !p.unlimited {
		return nil
	}
	if len(p.buf) > 0 && len(p.buf)+len(p.line) > MaxPacketBytes {
		if err := p.flush(); err != nil {
			return err
		}
	}
	p.buf = append(p.buf, p.line...)
	if counter != "" {
		p.names = append(p.names, counter)
	}
	return nil
}

// flush writes the packet and records its counters as sent.
func (p *packets) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	if _, err := p.client.conn.Write(p.buf); err != nil {
		return err
	}
	for _, name := range p.names {
		p.client.sent[name] = p.values[name]
	}
	p.buf, p.names = p.buf[:0], p.names[:0]
	return nil
}

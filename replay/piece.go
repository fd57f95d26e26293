package replay

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// pieceSize is how much of a log is read, parsed and sorted at once, in bytes. A line with its end must fit.
const pieceSize = 1 << 20

// shownLines is how many unreadable lines a report shows.
const shownLines = 5

// piece is a part of a log that ends at a line's end: cut by one goroutine, parsed by another, collected by a third, one after
// the other.
type piece struct {
	buffer []byte
	log    int    // which log it is of
	text   []byte // its lines, a part of buffer
	format Format
	spoilt string        // why its one line cannot be read, if that is known beforehand
	parsed chan struct{} // receives once the rest of the fields are set

	lines      int64
	records    []record // in time order
	keys       keyTable
	highs      []int64 // the instants of the records before which, in the piece, none is later; in input order
	unordered  int64   // how many records are not among them
	unreadable int64
	shown      []BadLine // the first few unreadable ones, their numbers counted from 0 in the piece
}

// BadLine is a line that could not be read.
type BadLine struct {
	Log    string `json:"log"`
	Line   int64  `json:"line"` // 1 for the first
	Reason string `json:"reason"`
	Text   string `json:"text"` // how the line begins, in Go's quotes
}

func newPiece() *piece {
	return &piece{buffer: make([]byte, pieceSize), parsed: make(chan struct{}, 1)}
}

// start forgets what was parsed before.
func (p *piece) start() {
	p.records, p.highs, p.shown = p.records[:0], p.highs[:0], p.shown[:0]
	p.lines, p.unordered, p.unreadable = 0, 0, 0
	p.keys.clear()
}

func (p *piece) add(rec record) {
	if n := len(p.highs); n > 0 && rec.at < p.highs[n-1] {
		p.unordered++
	} else {
		p.highs = append(p.highs, rec.at)
	}
	p.records = append(p.records, rec)
}

func (p *piece) refuse(number int64, line []byte, reason string) {
	p.unreadable++
	if len(p.shown) < shownLines {
		p.shown = append(p.shown, BadLine{Line: number, Reason: reason, Text: excerpt(line)})
	}
}

// excerpt is how a line begins, in quotes, so that no junk reaches a terminal.
func excerpt(line []byte) string {
	if len(line) > 60 {
		return strconv.QuoteToASCII(string(line[:60])) + "…"
	}
	return strconv.QuoteToASCII(string(line))
}

// finish puts the records in time order, equal instants in input order.
func (p *piece) finish() {
	if p.unordered == 0 {
		return
	}
	slices.SortFunc(p.records, func(a, b record) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.line, b.line)
	})
}

// outOfOrder is how many records are earlier than one before them, in the piece or before it, where the latest was at latest.
func (p *piece) outOfOrder(latest int64) int64 {
	earlier, _ := slices.BinarySearch(p.highs, latest)
	return p.unordered + int64(earlier)
}

// noInstant is before every instant.
const noInstant = math.MinInt64

package replay

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// pieceSize is how much of a log is read, parsed and sorted in one step, in bytes. It
// is the maximum length of a line.
const pieceSize = 1 << 20

// shownLines is the maximum number of unreadable lines in a report.
const shownLines = 5

// piece is a part of a log that ends at the end of a line. One goroutine cuts it,
// another one parses it, and a third one collects it.
type piece struct {
	buffer []byte
	log    int    // index of the log
	text   []byte // its lines, a part of buffer
	format Format
	spoilt string        // why its only line is unreadable, if that is known before parsing
	parsed chan struct{} // receives once the other fields are set

	lines      int64
	records    []record // in time order
	keys       keyTable
	highs      []int64 // times of the records with no later record before them in the piece, in input order
	unordered  int64   // the number of other records
	unreadable int64
	shown      []BadLine // the first unreadable lines, numbered from 0 in the piece
}

// BadLine is a line that could not be parsed.
type BadLine struct {
	Log    string `json:"log"`
	Line   int64  `json:"line"` // 1 for the first
	Reason string `json:"reason"`
	Text   string `json:"text"` // the beginning of the line, quoted like in Go
}

func newPiece() *piece {
	return &piece{buffer: make([]byte, pieceSize), parsed: make(chan struct{}, 1)}
}

// start removes the results of the previous use.
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

// excerpt returns the beginning of a line in quotes, so that control characters do not
// reach a terminal.
func excerpt(line []byte) string {
	if len(line) > 60 {
		return strconv.QuoteToASCII(string(line[:60])) + "…"
	}
	return strconv.QuoteToASCII(string(line))
}

// finish sorts the records by time, equal times in input order.
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

// outOfOrder returns how many records are earlier than one before them, in the piece or
// before it; latest is the latest time before the piece.
func (p *piece) outOfOrder(latest int64) int64 {
	earlier, _ := slices.BinarySearch(p.highs, latest)
	return p.unordered + int64(earlier)
}

// noInstant is before every time.
const noInstant = math.MinInt64

package replay

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// pieceSize is the size, in bytes, of the pieces in which a log is read, parsed and
// sorted. A line cannot be longer than a piece.
const pieceSize = 1 << 20

// shownLines is the maximum number of unreadable lines in a report.
const shownLines = 5

// piece is a part of a log that ends at the end of a line. One goroutine reads it from
// the log, a second one parses it, and a third one stores its records.
type piece struct {
	buffer []byte
	log    int    // index of the log that contains the piece
	text   []byte // the lines of the piece, in the memory of buffer
	format Format
	spoilt string        // the reason, if its only line was found to be unreadable before parsing
	parsed chan struct{} // receives a value when the parser has set the fields below

	lines      int64
	records    []record // sorted by time once the piece is parsed
	keys       keyTable
	highs      []int64 // times of the records that are not earlier than any previous record of the piece
	unordered  int64   // number of records that are earlier than a previous record of the piece
	unreadable int64
	shown      []BadLine // the first unreadable lines; their numbers begin at 0 in each piece
}

// BadLine describes a line that could not be parsed.
type BadLine struct {
	Log    string `json:"log"`
	Line   int64  `json:"line"` // line number in the log, from 1
	Reason string `json:"reason"`
	Text   string `json:"text"` // the beginning of the line, quoted as in Go
}

func newPiece() *piece {
	return &piece{buffer: make([]byte, pieceSize), parsed: make(chan struct{}, 1)}
}

// start removes the results of the previous use of the piece.
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

// excerpt returns the first 60 bytes of a line as a quoted string, so that control
// characters do not reach a terminal.
func excerpt(line []byte) string {
	if len(line) > 60 {
		return strconv.QuoteToASCII(string(line[:60])) + "…"
	}
	return strconv.QuoteToASCII(string(line))
}

// finish sorts the records by time, and records with equal times by line number.
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

// outOfOrder returns how many records are earlier than a previous record, in this piece
// or in an earlier one. latest is the latest time in earlier pieces.
func (p *piece) outOfOrder(latest int64) int64 {
	earlier, _ := slices.BinarySearch(p.highs, latest)
	return p.unordered + int64(earlier)
}

// noInstant is earlier than every time in a log.
const noInstant = math.MinInt64

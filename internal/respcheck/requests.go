package respcheck

// requests parses the requests that the client writes: arrays of bulk strings, split
// into chunks anywhere. It needs only the number of requests, and the first two words
// of each.
type requests struct {
	state  requestState
	number int64 // number that is being read
	skip   int64 // bytes of the current word, with its line end, that were not read yet
	args   int64 // words of the request
	index  int64 // words that were read
	words  [2]word
}

type requestState uint8

const (
	requestStart requestState = iota
	requestCount              // reading the number of words
	wordStart
	wordLength // reading the length of a word
	wordText
)

// word is a word in upper case, or empty for a word that is too long to be of interest.
type word struct {
	text [24]byte
	n    int
}

func (w *word) is(text string) bool { return string(w.text[:w.n]) == text }

func (w *word) add(p []byte) {
	for _, b := range p {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		w.text[w.n] = b
		w.n++
	}
}

// parse parses the next chunk and passes each complete request to m.
func (q *requests) parse(p []byte, m *matcher) error {
	for len(p) > 0 {
		switch q.state {
		case requestStart, wordStart:
			if !q.start(p[0]) {
				return errRequest
			}
			p = p[1:]
		case requestCount, wordLength:
			n, done, ok := q.digits(p)
			if !ok {
				return errRequest
			}
			if p = p[n:]; done {
				q.counted()
			}
		case wordText:
			n := min(q.skip, int64(len(p)))
			if q.index < int64(len(q.words)) && q.number < int64(len(q.words[0].text)) {
				q.words[q.index].add(p[:max(0, min(n, q.skip-2))])
			}
			q.skip -= n
			if p = p[n:]; q.skip > 0 {
				return nil
			}
			if q.index++; q.index < q.args {
				q.state = wordStart
				continue
			}
			q.state = requestStart
			if err := m.request(q); err != nil {
				return err
			}
		}
	}
	return nil
}

// start reads the first byte of a request or of a word.
func (q *requests) start(b byte) bool {
	q.number = 0
	if q.state == requestStart {
		q.state = requestCount
		return b == '*'
	}
	q.state = wordLength
	return b == '$'
}

// digits reads bytes of a number and its line end. done reports whether the number is
// complete.
func (q *requests) digits(p []byte) (n int, done, ok bool) {
	for i, b := range p {
		switch {
		case '0' <= b && b <= '9' && q.number < 1<<40:
			q.number = q.number*10 + int64(b-'0')
		case b == '\n':
			return i + 1, true, q.state == wordLength || q.number > 0
		case b != '\r':
			return 0, false, false
		}
	}
	return len(p), false, true
}

// counted uses a number that is complete.
func (q *requests) counted() {
	if q.state == requestCount {
		q.args, q.index, q.state = q.number, 0, wordStart
		q.words[0].n, q.words[1].n = 0, 0
		return
	}
	q.skip, q.state = q.number+2, wordText
}

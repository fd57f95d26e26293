package llmusage

// maxUsageBytes is the maximum size of a usage object that is read.
const maxUsageBytes = 4 << 10

// maxDepth is the maximum nesting of an answer. A deeper answer is not read further.
const maxDepth = 64

// keyKind is the meaning of a key of an object.
type keyKind uint8

const (
	otherKey  keyKind = iota
	usageKey          // its value is a usage object
	parentKey         // its value may have a usage object
	textKey           // its value is output of the model
)

// parentKind is the object that contains a usage object.
type parentKind uint8

const (
	noParent       parentKind = iota // the answer or event itself
	messageParent                    // its message
	responseParent                   // its response
)

// keys are the keys with a meaning, at any depth.
var keys = map[string]keyKind{
	"usage": usageKey, "message": parentKey, "response": parentKey,
	"content": textKey, "text": textKey, "delta": textKey, "thinking": textKey, "partial_json": textKey, "arguments": textKey,
}

// maxKeyBytes is the length of the longest key with a meaning.
const maxKeyBytes = len("partial_json")

// scanner reads a JSON text in pieces of any size, without keeping it. It does not check
// the syntax: what it finds in an invalid text is undefined, but it always stops.
type scanner struct {
	found func(usage []byte, in parentKind) // called for each usage object

	depth    int
	objects  uint64 // bit d is set if the value at depth d is an object
	inString bool
	escaped  bool
	isKey    bool // whether the string is a key
	wantsKey bool // whether the next string is a key, if the value at depth is an object
	key      [maxKeyBytes + 1]byte
	keyLen   int
	kind     keyKind // kind of the last key
	parent   keyKind // parentKey inside of the value of such a key at the top level
	message  bool    // whether that key is “message”
	textLen  int64   // bytes of output of the model so far

	textBefore int64 // textLen at the last reset

	capture  []byte
	captured int // depth of the usage object; 0 if there is none
}

// reset prepares the scanner for the next JSON text.
func (s *scanner) reset() {
	*s = scanner{found: s.found, textLen: s.textLen, textBefore: s.textLen, capture: s.capture[:0]}
}

// feed reads the next bytes of the text.
func (s *scanner) feed(p []byte) {
	for _, c := range p {
		if s.captured > 0 && len(s.capture) < maxUsageBytes {
			s.capture = append(s.capture, c)
		}
		if s.inString {
			s.inside(c)
			continue
		}
		switch c {
		case '"':
			s.inString, s.isKey, s.keyLen = true, s.wantsKey && s.isObject(), 0
		case '{', '[':
			s.open(c)
		case '}', ']':
			s.close()
		case ',':
			if s.wantsKey = true; s.isObject() {
				s.kind = otherKey
			}
		case ':':
			s.wantsKey = false
		}
	}
}

func (s *scanner) isObject() bool { return s.depth < maxDepth && s.objects>>s.depth&1 == 1 }

// inside reads a byte of a string.
func (s *scanner) inside(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.inString = false
		if s.isKey {
			s.kind = keys[string(s.key[:s.keyLen])]
			if s.depth == 1 {
				s.message = string(s.key[:s.keyLen]) == "message"
			}
		}
		return
	}
	switch {
	case s.isKey && s.keyLen < len(s.key):
		s.key[s.keyLen] = c
		s.keyLen++
	case !s.isKey && s.kind == textKey:
		s.textLen++
	}
}

// open begins an object or a list.
func (s *scanner) open(c byte) {
	switch {
	case s.captured > 0 || s.kind != usageKey || c != '{':
	case s.depth == 1 || s.depth == 2 && s.parent == parentKey:
		s.captured = s.depth + 1
		s.capture = append(s.capture[:0], c)
	}
	if s.depth == 1 && s.captured == 0 && c == '{' {
		s.parent = s.kind
	}
	s.depth++
	if s.depth < maxDepth {
		s.objects &^= 1 << s.depth
		if c == '{' {
			s.objects |= 1 << s.depth
		}
	}
	s.wantsKey = true
	if c == '{' || s.kind != textKey {
		s.kind = otherKey // the elements of a list of texts are texts
	}
}

// close ends an object or a list.
func (s *scanner) close() {
	if s.depth == 0 {
		return
	}
	if s.depth == s.captured {
		if len(s.capture) < maxUsageBytes {
			s.found(s.capture, s.parentOfUsage())
		}
		s.captured = 0
	}
	s.depth--
	if s.depth == 1 {
		s.parent, s.message = otherKey, false
	}
	s.wantsKey, s.kind = false, otherKey
}

// parentOfUsage returns the object that contains the usage object that ends.
func (s *scanner) parentOfUsage() parentKind {
	switch {
	case s.depth < 3:
		return noParent
	case s.message:
		return messageParent
	default:
		return responseParent
	}
}

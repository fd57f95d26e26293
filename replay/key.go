package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate/internal/key"
)

// Key lists the fields of a log line from which the key of a request is made. As text
// it is the names of the fields, joined by “+”, such as “ip+path”; see [ParseKey]. The
// zero value means the client's address. Key has no effect on JSON lines, because each
// of them contains its key.
type Key struct {
	fields []keyField
	whole  bool // whether the key contains all fields; see appendWhole
}

// keyField is a field of a log line that can be part of a key.
type keyField uint8

const (
	keyIP     keyField = iota // the client's address or host name: %h in the configuration of Apache
	keyUser                   // the authenticated user, or "-": %u in the configuration of Apache
	keyMethod                 // the request's method
	keyPath                   // the request's path, without the query
	keyFields
)

var keyNames = [keyFields]string{"ip", "user", "method", "path"}

// ErrInvalidKey is matched by the error of [ParseKey] for an unknown field.
var ErrInvalidKey = errors.New("replay: invalid key")

// ParseKey parses the text of a key: ip, user, method or path, or several of them
// joined by “+”. For an unknown name the error matches [ErrInvalidKey] and lists all
// names.
func ParseKey(text string) (Key, error) {
	var k Key
	for name := range strings.SplitSeq(text, "+") {
		f, err := parseKeyField(name)
		if err != nil {
			return Key{}, err
		}
		k.fields = append(k.fields, f)
	}
	return k, nil
}

func parseKeyField(name string) (keyField, error) {
	for f, known := range keyNames {
		if name == known {
			return keyField(f), nil
		}
	}
	return 0, fmt.Errorf("%w: %.40q is not a field of a log line; must be %s, or several of them joined by +, as in ip+path",
		ErrInvalidKey, name, strings.Join(keyNames[:], ", "))
}

// String returns the names of the fields, joined by “+”. [ParseKey] parses this text.
func (k Key) String() string {
	if len(k.fields) == 0 {
		return keyNames[keyIP]
	}
	names := make([]string, len(k.fields))
	for i, f := range k.fields {
		names[i] = keyNames[f]
	}
	return strings.Join(names, "+")
}

// of returns the key of a log line. It encodes several fields as the service and the
// middleware do, so that the keys are the same. It overwrites dst and returns it.
func (k Key) of(line *logLine, dst []byte) []byte {
	dst = dst[:0]
	if k.whole {
		return appendWhole(dst, line)
	}
	switch len(k.fields) {
	case 0:
		dst = append(dst, line.field(keyIP)...)
	case 1:
		dst = append(dst, line.field(k.fields[0])...)
	default:
		for i, f := range k.fields {
			if i > 0 {
				dst = append(dst, '+')
			}
			dst = key.AppendEscaped(dst, line.field(f))
		}
	}
	return key.Bound(dst, 0)
}

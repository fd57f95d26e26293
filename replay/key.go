package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate/internal/key"
)

// Key lists the fields of a log line that make the key. Its text is their names joined
// by “+”, such as “ip+path”; see [ParseKey]. The zero value means the client's address.
// In JSON lines each record has its key, and Key is not used.
type Key struct {
	fields []keyField
}

// keyField is a field of a log line that can be part of a key.
type keyField uint8

const (
	keyIP     keyField = iota // the client's address or host name, %h
	keyUser                   // the authenticated user, %u; "-" for none
	keyMethod                 // the request's method
	keyPath                   // the request's path, without the query
	keyFields
)

var keyNames = [keyFields]string{"ip", "user", "method", "path"}

// ErrInvalidKey: the key names an unknown field.
var ErrInvalidKey = errors.New("replay: invalid key")

// ParseKey parses a key: ip, user, method or path, or several of them joined by “+”.
// For an unknown name it returns [ErrInvalidKey] with the list of names.
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
	return 0, fmt.Errorf("%w: %.40q is not a field of a log line; there are %s, and several joined by +, as in ip+path",
		ErrInvalidKey, name, strings.Join(keyNames[:], ", "))
}

// String returns the text that [ParseKey] parses.
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

// of returns the key of a line, with the encoding of the service and the middleware. It
// overwrites dst.
func (k Key) of(line *logLine, dst []byte) []byte {
	dst = dst[:0]
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

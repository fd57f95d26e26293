package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate/internal/key"
)

// Key says which fields of a log line make the key. It is written as their names joined by “+”, such as “ip+path”; see
// [ParseKey]. The zero value means the client's address. In JSON lines the key is the record's own, and Key is not used.
type Key struct {
	fields []keyField
}

// keyField is a field of a log line that a key can be made of.
type keyField uint8

const (
	keyIP     keyField = iota // the client's address or host name, %h
	keyUser                   // the authenticated user, %u; "-" for none
	keyMethod                 // the request's method
	keyPath                   // the request's path, without the query
	keyFields
)

var keyNames = [keyFields]string{"ip", "user", "method", "path"}

// ErrInvalidKey: a key that names a field which logs do not hold.
var ErrInvalidKey = errors.New("replay: invalid key")

// ParseKey reads a key: one of ip, user, method and path, or several joined by “+”. An unknown name is answered with
// [ErrInvalidKey] and the names there are.
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

// String is the text that [ParseKey] reads.
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

// of is the key of a line: the text that the service and the middlewares make of the same parts. It is written over dst.
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

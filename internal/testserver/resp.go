package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Reply is a reply of a Redis server, in RESP2.
type Reply struct {
	Kind  byte    // '+' status, ':' integer, '$' bulk string, '*' array, '_' null
	Text  string  // of a status, an integer (in decimal) or a bulk string
	Items []Reply // of an array
}

// String returns the text; "(nil)" for null, and one item per line for an array.
func (r Reply) String() string {
	switch r.Kind {
	case '_':
		return "(nil)"
	case '*':
		return strings.Join(r.Strings(), "\n")
	default:
		return r.Text
	}
}

// Strings returns String of each item of an array.
func (r Reply) Strings() []string {
	all := make([]string, len(r.Items))
	for i, item := range r.Items {
		all[i] = item.String()
	}
	return all
}

// Int returns the text as an integer, or 0 if it is not one.
func (r Reply) Int() int64 {
	n, _ := strconv.ParseInt(r.Text, 10, 64)
	return n
}

// ServerError is an error reply. Its text begins with a code in capitals, such as
// NOSCRIPT.
type ServerError string

// Error returns the text of the reply.
func (e ServerError) Error() string { return string(e) }

// errMalformed means that the reply is not valid RESP2.
var errMalformed = errors.New("malformed reply")

// ask sends commands on a new connection and returns the reply to the last one. It
// returns any error reply as a ServerError.
func ask(network, addr string, commands ...[]string) (Reply, error) {
	const timeout = 10 * time.Second
	conn, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		return Reply{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return Reply{}, err
	}
	var last Reply
	reader := bufio.NewReader(conn)
	for _, command := range commands {
		if _, err := conn.Write(encode(command)); err != nil {
			return Reply{}, err
		}
		if last, err = decode(reader); err != nil {
			return Reply{}, err
		}
	}
	return last, nil
}

// encode encodes a command as an array of bulk strings.
func encode(command []string) []byte {
	text := fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, word := range command {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
	}
	return text
}

// decode reads one reply. An error inside an array ends it: the rest is not read.
func decode(r *bufio.Reader) (Reply, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return Reply{}, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return Reply{}, errMalformed
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '+', ':':
		return Reply{Kind: kind, Text: text}, nil
	case '-':
		return Reply{}, ServerError(text)
	case '$', '*':
		length, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return Reply{}, errMalformed
		case length < 0:
			return Reply{Kind: '_'}, nil
		case kind == '$':
			return decodeText(r, length)
		default:
			return decodeList(r, length)
		}
	default:
		return Reply{}, errMalformed
	}
}

func decodeText(r *bufio.Reader, length int) (Reply, error) {
	text := make([]byte, length+len("\r\n"))
	_, err := io.ReadFull(r, text)
	return Reply{Kind: '$', Text: string(text[:length])}, err
}

func decodeList(r *bufio.Reader, length int) (Reply, error) {
	list := Reply{Kind: '*', Items: make([]Reply, length)}
	for i := range list.Items {
		var err error
		if list.Items[i], err = decode(r); err != nil {
			return Reply{}, err
		}
	}
	return list, nil
}

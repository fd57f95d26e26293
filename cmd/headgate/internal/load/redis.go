package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// redisClient makes calls on one connection, with CL.THROTTLE, or with HG.CHECK if
// there is a policy. It encodes and decodes the protocol itself, because a client
// library would need more CPU time than the service.
type redisClient struct {
	conn  net.Conn
	lines *bufio.Reader
	out   []byte
	command
	stop func() bool // cancels the closing of the connection at the end of the context
}

func openRedis(u *url.URL, opts *Options) (func(context.Context) (client, error), error) {
	cmd, err := newCommand(opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (client, error) {
		dial := (&net.Dialer{Timeout: callTimeout}).DialContext
		if u.Scheme == "rediss" {
			dial = (&tls.Dialer{NetDialer: &net.Dialer{Timeout: callTimeout}, Config: opts.clientTLS(u.Hostname())}).DialContext
		}
		conn, err := dial(ctx, "tcp", u.Host)
		if err != nil {
			return nil, err
		}
		c := &redisClient{conn: conn, lines: bufio.NewReaderSize(conn, 16<<10), command: *cmd}
		c.stop = context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends a pending read
		if err := c.login(u.User); err != nil {
			c.close()
			return nil, err
		}
		return c, nil
	}, nil
}

// command is a command without its key, and the condition under which its reply means
// allowed.
type command struct {
	before, after []string // arguments before and after the key
	element       int      // index of the element to test in the reply
	allowed       string   // value of this element if the call is allowed
}

func newCommand(opts *Options) (*command, error) {
	if opts.Policy != "" {
		return &command{before: []string{"HG.CHECK", opts.Policy}, element: 1, allowed: ":1"}, nil
	}
	seconds := int64(opts.Limit.Period / time.Second)
	if opts.Limit.Period%time.Second != 0 {
		return nil, fmt.Errorf("load: limit is %s; CL.THROTTLE requires a period in whole seconds", opts.Limit)
	}
	numbers := []string{
		strconv.FormatInt(opts.Limit.Capacity()-1, 10), strconv.FormatInt(opts.Limit.Rate, 10), strconv.FormatInt(seconds, 10),
	}
	return &command{[]string{"CL.THROTTLE"}, numbers, 0, ":0"}, nil
}

func (c *redisClient) login(user *url.Userinfo) error {
	password, ok := user.Password()
	if !ok {
		return nil
	}
	args := []string{"AUTH", password}
	if user.Username() != "" {
		args = []string{"AUTH", user.Username(), password}
	}
	_ = c.conn.SetDeadline(time.Now().Add(callTimeout))
	if _, err := c.conn.Write(appendCommand(nil, args)); err != nil {
		return err
	}
	line, err := c.line()
	if err == nil && line != "+OK" {
		err = fmt.Errorf("the server answers AUTH with %q", line)
	}
	return err
}

// appendCommand appends the RESP encoding of one command, whose arguments are the
// elements of all lists.
func appendCommand(out []byte, lists ...[]string) []byte {
	n := 0
	for _, args := range lists {
		n += len(args)
	}
	out = append(strconv.AppendInt(append(out, '*'), int64(n), 10), "\r\n"...)
	for _, args := range lists {
		for _, arg := range args {
			out = append(strconv.AppendInt(append(out, '$'), int64(len(arg)), 10), "\r\n"...)
			out = append(append(out, arg...), "\r\n"...)
		}
	}
	return out
}

func (c *redisClient) check(ctx context.Context, keys []string) (allowed int, err error) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.conn.SetDeadline(deadline)
	}
	c.out = c.out[:0]
	for _, key := range keys {
		c.out = appendCommand(c.out, c.before, []string{key}, c.after)
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, err
	}
	for range keys {
		ok, err := c.reply()
		if err != nil {
			return 0, err
		}
		if ok {
			allowed++
		}
	}
	return allowed, nil
}

// reply reads the reply to a call, which must be an array.
func (c *redisClient) reply() (allowed bool, err error) {
	line, err := c.line()
	if err != nil {
		return false, err
	}
	count, err := strconv.Atoi(strings.TrimPrefix(line, "*"))
	if strings.HasPrefix(strings.ToLower(line), "-err unknown command") {
		return false, fmt.Errorf("the server replied %.200q: it appears to be Redis, not Headgate; by default, Headgate listens on redis://127.0.0.1:6380", line)
	}
	if err != nil || line[0] != '*' || count <= c.element || count > 64 {
		return false, fmt.Errorf("the server replied %.200q", line)
	}
	for i := range count {
		if line, err = c.value(0); err != nil {
			return false, err
		}
		if i == c.element {
			allowed = line == c.allowed
		}
	}
	return allowed, nil
}

// value reads one RESP value, including nested values, and returns its first line.
func (c *redisClient) value(depth int) (line string, err error) {
	if line, err = c.line(); err != nil || line[0] != '*' && line[0] != '$' {
		return line, err
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n > 64<<10 || depth > 4 {
		return "", fmt.Errorf("the server replied %.200q", line)
	}
	if line[0] == '$' && n >= 0 {
		_, err = c.lines.Discard(n + len("\r\n"))
		return line, err
	}
	for range n {
		if _, err := c.value(depth + 1); err != nil {
			return "", err
		}
	}
	return line, nil
}

func (c *redisClient) line() (string, error) {
	text, err := c.lines.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	line := strings.TrimSuffix(string(text), "\r\n")
	if line == "" {
		return "", io.ErrUnexpectedEOF
	}
	return line, nil
}

func (c *redisClient) close() {
	c.stop()
	_ = c.conn.Close()
}

// opener returns a function that opens a connection to the service at rawURL.
func opener(rawURL string, opts *Options) (func(context.Context) (client, error), error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return nil, errors.New("load: invalid URL; write http://127.0.0.1:8080, grpc://127.0.0.1:8081 or redis://127.0.0.1:6380")
	}
	switch u.Scheme {
	case "http", "https":
		if opts.Pipeline > 1 {
			return nil, errors.New("load: HTTP allows one call in flight per connection; leave pipeline out and increase connections")
		}
		return openHTTP(u, opts), nil
	case "grpc", "grpcs", "redis", "rediss":
	default:
		return nil, fmt.Errorf("load: unknown scheme %.20q; must be http, https, grpc, grpcs, redis or rediss", u.Scheme)
	}
	switch {
	case u.Port() == "":
		return nil, errors.New("load: the URL has no port; write host:port, as in redis://127.0.0.1:6380")
	case u.Scheme == "redis" || u.Scheme == "rediss":
		return openRedis(u, opts)
	case opts.Policy != "":
		return nil, errors.New("load: policy does not apply to Envoy calls; set domain and entry")
	}
	return openGRPC(u, opts), nil
}

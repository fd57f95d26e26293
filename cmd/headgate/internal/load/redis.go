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

// redisClient asks CL.THROTTLE, or HG.CHECK of a policy, on one connection. What it sends and reads is so little that a client's library
// would cost more than the service.
type redisClient struct {
	conn  net.Conn
	lines *bufio.Reader
	out   []byte
	question
	forget func() bool // the end of the load
}

func openRedis(u *url.URL, opts *Options) (func(context.Context) (client, error), error) {
	asked, err := newQuestion(opts)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (client, error) {
		dial := (&net.Dialer{Timeout: callTimeout}).DialContext
		if u.Scheme == "rediss" {
			dial = (&tls.Dialer{NetDialer: &net.Dialer{Timeout: callTimeout}, Config: opts.trust(u.Hostname())}).DialContext
		}
		conn, err := dial(ctx, "tcp", u.Host)
		if err != nil {
			return nil, err
		}
		c := &redisClient{conn: conn, lines: bufio.NewReaderSize(conn, 16<<10), question: *asked}
		c.forget = context.AfterFunc(ctx, func() { _ = conn.Close() }) // so that nobody waits for an answer when the load is to end
		if err := c.login(u.User); err != nil {
			c.close()
			return nil, err
		}
		return c, nil
	}, nil
}

// question is what is asked, but for the key, and which part of the reply says yes.
type question struct {
	before, after []string // the arguments before and behind the key
	place         int      // in the reply
	yes           string
}

func newQuestion(opts *Options) (*question, error) {
	if opts.Policy != "" {
		return &question{before: []string{"HG.CHECK", opts.Policy}, place: 1, yes: ":1"}, nil
	}
	seconds := int64(opts.Limit.Period / time.Second)
	if opts.Limit.Period%time.Second != 0 {
		return nil, fmt.Errorf("load: CL.THROTTLE takes whole seconds, and %s is not of them", opts.Limit)
	}
	numbers := []string{
		strconv.FormatInt(opts.Limit.Capacity()-1, 10), strconv.FormatInt(opts.Limit.Rate, 10), strconv.FormatInt(seconds, 10),
	}
	return &question{[]string{"CL.THROTTLE"}, numbers, 0, ":0"}, nil
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

// appendCommand appends arguments as a Redis client sends them.
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

func (c *redisClient) ask(ctx context.Context, keys []string) (allowed int, err error) {
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

// reply reads a list, in which one place says whether the call was allowed.
func (c *redisClient) reply() (allowed bool, err error) {
	line, err := c.line()
	if err != nil {
		return false, err
	}
	count, err := strconv.Atoi(strings.TrimPrefix(line, "*"))
	if strings.HasPrefix(strings.ToLower(line), "-err unknown command") {
		return false, fmt.Errorf("the server answers %.200q: this looks like Redis, not Headgate (redis://127.0.0.1:6380 by default)", line)
	}
	if err != nil || line[0] != '*' || count <= c.place || count > 64 {
		return false, fmt.Errorf("the server answers %.200q", line)
	}
	for i := range count {
		if line, err = c.value(0); err != nil {
			return false, err
		}
		if i == c.place {
			allowed = line == c.yes
		}
	}
	return allowed, nil
}

// value reads a value, and is its first line.
func (c *redisClient) value(depth int) (line string, err error) {
	if line, err = c.line(); err != nil || line[0] != '*' && line[0] != '$' {
		return line, err
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n > 64<<10 || depth > 4 {
		return "", fmt.Errorf("the server answers %.200q", line)
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
	c.forget()
	_ = c.conn.Close()
}

// opener is what opens connections to a URL.
func opener(rawURL string, opts *Options) (func(context.Context) (client, error), error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return nil, errors.New("load: that is no URL of a door; write http://127.0.0.1:8080, grpc://127.0.0.1:8081 or redis://127.0.0.1:6380")
	}
	switch u.Scheme {
	case "http", "https":
		if opts.Pipeline > 1 {
			return nil, errors.New("load: HTTP takes one call at a time on a connection; leave pipeline out, and take more connections")
		}
		return openHTTP(u, opts), nil
	case "grpc", "grpcs", "redis", "rediss":
	default:
		return nil, fmt.Errorf("load: there is no door for %.20q; there are http, https, grpc, grpcs, redis and rediss", u.Scheme)
	}
	switch {
	case u.Port() == "":
		return nil, errors.New("load: the URL has no port; write it behind the host, as in redis://127.0.0.1:6380")
	case u.Scheme == "redis" || u.Scheme == "rediss":
		return openRedis(u, opts)
	case opts.Policy != "":
		return nil, errors.New("load: Envoy's calls name a domain and an entry, and no policy")
	}
	return openGRPC(u, opts), nil
}

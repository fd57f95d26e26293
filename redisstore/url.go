package redisstore

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// ErrInvalidURL: a store's URL that cannot be read. See [URLError].
var ErrInvalidURL = errors.New("redisstore: invalid URL")

// URLError says which part of a URL is wrong. It never repeats the user and password. It matches [ErrInvalidURL].
type URLError struct {
	Part   string // scheme, address, database, master name, parameter …
	Reason string
}

// Error names the part and what is accepted.
func (e *URLError) Error() string {
	return fmt.Sprintf("redisstore: invalid URL: %s: %s", e.Part, e.Reason)
}

// Is reports whether target is [ErrInvalidURL].
func (e *URLError) Is(target error) bool { return target == ErrInvalidURL }

// target is what a URL says: where the servers are, and the options that it sets.
type target struct {
	kind      kind
	secure    bool
	addresses []string
	user      string
	password  string
	database  int
	master    string // Sentinel's name for the primary
	params    url.Values
}

type kind string

const (
	single   kind = "redis"
	sentinel kind = "redis+sentinel"
	cluster  kind = "redis+cluster"
	socket   kind = "redis+unix"
)

const schemes = "there are redis://, rediss:// (TLS), redis+sentinel://, redis+cluster:// (rediss+… with TLS) and redis+unix://"

// parseURL reads redis://user:password@host:port,host:port/2?name=value and its relatives.
func parseURL(raw string) (*target, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, &URLError{"scheme", schemes}
	}
	t := &target{kind: kind(strings.ToLower(scheme))}
	if after, secure := strings.CutPrefix(string(t.kind), "rediss"); secure {
		t.kind, t.secure = kind("redis"+after), true
	}
	rest, query, _ := strings.Cut(rest, "?")
	if err := t.setParams(query); err != nil {
		return nil, err
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 && !(t.kind == socket && rest[0] == '/') {
		if err := t.setUser(rest[:i]); err != nil {
			return nil, err
		}
		rest = rest[i+1:]
	}
	if t.kind == socket {
		return t, t.setSocket(rest)
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if err := t.setAddresses(hosts); err != nil {
		return nil, err
	}
	return t, t.setPath(path)
}

// setParams reads what stands behind the question mark. A name that cannot be one may be the rest of a password with a question mark
// in it, so it is not repeated.
func (t *target) setParams(query string) (err error) {
	if t.params, err = url.ParseQuery(query); err != nil {
		return &URLError{"parameters", "they cannot be read; write ?name=value&name=value, and a ? in a password as %3F"}
	}
	for name, values := range t.params {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" || name == "" {
			return &URLError{"parameters", "one has a name that cannot be; a ? in a password is written %3F"}
		}
		if len(values) > 1 {
			return &URLError{"parameter " + name, "it is given twice"}
		}
	}
	return nil
}

func (t *target) setUser(text string) error {
	user, password, both := strings.Cut(text, ":")
	var err, err2 error
	t.user, err = url.PathUnescape(user)
	t.password, err2 = url.PathUnescape(password)
	if err != nil || err2 != nil {
		return &URLError{"user and password", "a % is written %25, an @ %40, a : %3A, a / %2F and a ? %3F"}
	}
	if !both && t.user != "" {
		return &URLError{"user and password", "a password alone is written :password@host, with the colon"}
	}
	return nil
}

func (t *target) setSocket(path string) error {
	if t.secure {
		return &URLError{"scheme", "a unix socket has no TLS; write redis+unix://"}
	}
	if !strings.HasPrefix(path, "/") {
		return &URLError{"path", "a socket's path is absolute: redis+unix:///run/redis/redis.sock"}
	}
	t.addresses = []string{path}
	return t.setDatabase("parameter db", t.take("db"))
}

const defaultPort, sentinelPort = "6379", "26379"

func (t *target) setAddresses(hosts string) error {
	port := defaultPort
	switch t.kind {
	case single, cluster:
	case sentinel:
		port = sentinelPort
	default:
		return &URLError{"scheme", schemes}
	}
	if hosts == "" {
		return &URLError{"address", "it is missing; write " + string(t.kind) + "://127.0.0.1:" + port}
	}
	for i, address := range strings.Split(hosts, ",") {
		full, err := withPort(address, port)
		if err != nil {
			err.Part = fmt.Sprintf("%s %d", err.Part, i+1)
			return err
		}
		t.addresses = append(t.addresses, full)
	}
	return nil
}

// withPort is host:port of an address that may lack its port. What is wrong with it is said without repeating it: where an @ is
// missing it is the user and the password.
func withPort(address, port string) (string, *URLError) {
	host := address
	if h, p, err := net.SplitHostPort(address); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]") {
		host = address[1 : len(address)-1]
	} else if strings.Contains(address, ":") {
		return "", &URLError{"address", "it is no host:port; an IPv6 address stands in brackets"}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < 1 {
		return "", &URLError{"port of address", "accepted are 1 to 65535; with a user, write user:password@host:port"}
	}
	if host == "" || strings.ContainsFunc(host, notInHosts) {
		return "", &URLError{"address", "it has no host, or one with characters that no host has"}
	}
	return net.JoinHostPort(host, port), nil
}

func notInHosts(c rune) bool {
	return c <= ' ' || c == 0x7f || strings.ContainsRune(`#@/\?"'<>[]{}|^`+"`", c)
}

// setPath reads what stands behind the addresses.
func (t *target) setPath(path string) error {
	path = strings.TrimSuffix(path, "/")
	switch t.kind {
	case sentinel:
		if t.master = path; path == "" || strings.Contains(path, "/") {
			return &URLError{"master name", "write redis+sentinel://host:port,host:port/NAME, as the sentinels know it"}
		}
		return t.setDatabase("parameter db", t.take("db"))
	case cluster:
		if path != "" && path != "0" {
			return &URLError{"database", "a cluster has only 0; leave it out"}
		}
		return nil
	default:
		return t.setDatabase("database", path)
	}
}

func (t *target) setDatabase(part, text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1<<20 {
		return &URLError{part, "accepted are whole numbers from 0"}
	}
	t.database = n
	return nil
}

// take is a parameter's value, which is then no longer there.
func (t *target) take(name string) string {
	value := t.params.Get(name)
	t.params.Del(name)
	return value
}

// apply sets the options that the URL's parameters name; what is then left of them is unknown.
func (t *target) apply(o *Options) error {
	if v := t.take("namespace"); v != "" {
		o.Namespace = v
	}
	if v := t.take("layout"); v != "" {
		o.Layout = Layout(v)
	}
	for _, p := range []struct {
		name string
		to   *time.Duration
	}{{"timeout", &o.Timeout}, {"denial_memory", &o.DenialCacheTTL}} {
		if v := t.take(p.name); v != "" {
			d, err := time.ParseDuration(v)
			if err != nil || d == 0 || d < 0 && p.to == &o.Timeout {
				return &URLError{"parameter " + p.name, "accepted are times such as 500ms"}
			}
			*p.to = d
		}
	}
	if v := t.take("batching"); v != "" {
		on, err := strconv.ParseBool(v)
		if err != nil {
			return &URLError{"parameter batching", "accepted are true and false"}
		}
		o.NoBatching = !on
	}
	return nil
}

// client is the settings of the client that the URL describes.
func (t *target) client() (*rueidis.ClientOption, error) {
	option := &rueidis.ClientOption{
		InitAddress: t.addresses, Username: t.user, Password: t.password, SelectDB: t.database,
		DisableCache: true, DisableRetry: true, ForceSingleClient: t.kind == single || t.kind == socket,
		ReadBufferEachConn: bufferBytes, WriteBufferEachConn: bufferBytes, ClientName: "headgate",
	}
	option.Dialer.Timeout = dialTimeout
	option.ConnWriteTimeout = connectionTimeout
	option.ClusterOption.MaxMovedRedirections = 16
	if err := t.secureWith(option); err != nil {
		return nil, err
	}
	switch t.kind {
	case sentinel:
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: t.master, Username: t.take("sentinel_user"), Password: t.take("sentinel_password"),
			TLSConfig: option.TLSConfig, Dialer: option.Dialer, TopologyRefreshInterval: sentinelRefresh,
		}
	case socket, single:
		option.InitAddress = t.addresses[:1] // the dialer knows the others
	}
	for name := range t.params {
		return nil, &URLError{fmt.Sprintf("parameter %.40q", name), "unknown here; docs/operations.md lists them"}
	}
	return option, nil
}

const (
	bufferBytes       = 64 << 10
	dialTimeout       = time.Second
	connectionTimeout = 10 * time.Second
	sentinelRefresh   = 5 * time.Second
)

// secureWith reads the parameters of TLS: ca, cert and key are files, server_name what the certificate must name, insecure switches
// the check off.
func (t *target) secureWith(option *rueidis.ClientOption) error {
	ca, cert, key, name, insecure := t.take("ca"), t.take("cert"), t.take("key"), t.take("server_name"), t.take("insecure")
	if !t.secure {
		if ca+cert+key+name+insecure != "" {
			return &URLError{"scheme", "parameters of TLS need rediss://"}
		}
		return nil
	}
	unchecked, err := strconv.ParseBool(cmp.Or(insecure, "false"))
	if err != nil {
		return &URLError{"parameter insecure", "accepted are true and false"}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, InsecureSkipVerify: unchecked}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return &URLError{"parameter ca", fmt.Sprintf("%.200q holds no certificate that can be read", ca)}
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return &URLError{"parameters cert and key", fmt.Sprintf("they are no pair of files that can be read: %.200s", err)}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	option.TLSConfig = config
	return nil
}

package redisstore

import (
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
	var err error
	if t.params, err = url.ParseQuery(query); err != nil {
		return nil, &URLError{"parameters", "they cannot be read; write ?name=value&name=value"}
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
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

func (t *target) setUser(text string) error {
	user, password, both := strings.Cut(text, ":")
	var err, err2 error
	t.user, err = url.PathUnescape(user)
	t.password, err2 = url.PathUnescape(password)
	if err != nil || err2 != nil {
		return &URLError{"user and password", "a % stands for itself as %25, an @ as %40, a : as %3A, a / as %2F"}
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
	for _, address := range strings.Split(hosts, ",") {
		full, err := withPort(address, port)
		if err != nil {
			return err
		}
		t.addresses = append(t.addresses, full)
	}
	return nil
}

// withPort is host:port of an address that may lack its port.
func withPort(address, port string) (string, error) {
	host := address
	if h, p, err := net.SplitHostPort(address); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]") {
		host = address[1 : len(address)-1]
	} else if strings.Contains(address, ":") {
		return "", &URLError{"address", fmt.Sprintf("%.60q is no host:port; an IPv6 address stands in brackets", address)}
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return "", &URLError{"port", fmt.Sprintf("%.20q; accepted are 1 to 65535", port)}
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n") {
		return "", &URLError{"address", fmt.Sprintf("%.60q has no host", address)}
	}
	return net.JoinHostPort(host, port), nil
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
		return &URLError{part, fmt.Sprintf("%.20q is no database; accepted are whole numbers from 0", text)}
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
	}{{"timeout", &o.Timeout}, {"denial_memory", &o.DenialMemory}} {
		if v := t.take(p.name); v != "" {
			d, err := time.ParseDuration(v)
			if err != nil || d == 0 {
				return &URLError{"parameter " + p.name, fmt.Sprintf("%.20q is no time such as 500ms", v)}
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
		dialer := &anyOf{socket: t.kind == socket, addresses: t.addresses}
		option.InitAddress = t.addresses[:1]
		option.DialCtxFn = dialer.dial
	}
	for name := range t.params {
		return nil, &URLError{fmt.Sprintf("parameter %.40q", name), "unknown; docs/operations.md lists them"}
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
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, InsecureSkipVerify: insecure == "true"} //nolint:gosec // on request
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
			return &URLError{"parameters cert and key", "they are no pair of files that can be read: " + err.Error()}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	option.TLSConfig = config
	return nil
}

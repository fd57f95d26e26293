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

// ErrInvalidURL is matched by the error for an invalid store URL. See [URLError].
var ErrInvalidURL = errors.New("redisstore: invalid URL")

// URLError reports which part of a URL is invalid. It never contains the username or
// the password. It matches [ErrInvalidURL].
type URLError struct {
	Part   string // scheme, address, database, master name, parameter …
	Reason string
}

// Error returns the name of the invalid part and what is accepted.
func (e *URLError) Error() string {
	return fmt.Sprintf("redisstore: invalid URL: %s: %s", e.Part, e.Reason)
}

// Is reports whether target is [ErrInvalidURL].
func (e *URLError) Is(target error) bool { return target == ErrInvalidURL }

// target is a parsed URL: the addresses of the servers, and the options that the URL
// sets.
type target struct {
	kind      kind
	secure    bool
	addresses []string
	user      string
	password  string
	database  int
	master    string // name of the primary in Sentinel
	params    url.Values
}

type kind string

const (
	single   kind = "redis"
	sentinel kind = "redis+sentinel"
	cluster  kind = "redis+cluster"
	socket   kind = "redis+unix"
)

const knownSchemes = "must be redis://, rediss:// (TLS), redis+sentinel://, redis+cluster:// (rediss+… for TLS) or redis+unix://"

// parseURL parses a store URL, such as
// redis://user:password@host:port,host:port/2?name=value.
func parseURL(raw string) (*target, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, &URLError{"scheme", knownSchemes}
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

// setParams parses the query of the URL. If a password contains an unescaped question
// mark, a part of the password is parsed as a parameter name, so the error for an
// invalid name does not contain the name.
func (t *target) setParams(query string) (err error) {
	if t.params, err = url.ParseQuery(query); err != nil {
		return &URLError{"parameters", "invalid syntax; must be ?name=value&name=value (escape a ? in a password as %3F)"}
	}
	for name, values := range t.params {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" || name == "" {
			return &URLError{"parameters", "invalid parameter name (escape a ? in a password as %3F)"}
		}
		if len(values) > 1 {
			return &URLError{"parameter " + name, "is set more than once"}
		}
	}
	return nil
}

func (t *target) setUser(text string) error {
	user, password, hasColon := strings.Cut(text, ":")
	var err, passwordErr error
	t.user, err = url.PathUnescape(user)
	t.password, passwordErr = url.PathUnescape(password)
	if err != nil || passwordErr != nil {
		return &URLError{"user and password", "invalid escape; write % as %25, @ as %40, : as %3A, / as %2F and ? as %3F"}
	}
	if !hasColon && t.user != "" {
		return &URLError{"user and password", "the colon is missing; a password alone is :password@host"}
	}
	return nil
}

func (t *target) setSocket(path string) error {
	if t.secure {
		return &URLError{"scheme", "a Unix socket cannot use TLS; use redis+unix://"}
	}
	if !strings.HasPrefix(path, "/") {
		return &URLError{"path", "must be absolute, as in redis+unix:///run/redis/redis.sock"}
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
		return &URLError{"scheme", knownSchemes}
	}
	if hosts == "" {
		return &URLError{"address", "missing; use " + string(t.kind) + "://127.0.0.1:" + port}
	}
	for i, address := range strings.Split(hosts, ",") {
		hostPort, err := withPort(address, port)
		if err != nil {
			err.Part = fmt.Sprintf("%s %d", err.Part, i+1)
			return err
		}
		t.addresses = append(t.addresses, hostPort)
	}
	return nil
}

// withPort returns address as host:port. The parameter port is used if address has no
// port. Errors do not contain the address, because it contains the username and the
// password if an @ is missing.
func withPort(address, port string) (string, *URLError) {
	host := address
	if h, p, err := net.SplitHostPort(address); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]") {
		host = address[1 : len(address)-1]
	} else if strings.Contains(address, ":") {
		return "", &URLError{"address", "must be host:port, with an IPv6 address in brackets"}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < 1 {
		return "", &URLError{"port of address", "must be 1 to 65535 (with a user: user:password@host:port)"}
	}
	if host == "" || strings.ContainsFunc(host, isInvalidInHost) {
		return "", &URLError{"address", "the host is missing or has an invalid character"}
	}
	return net.JoinHostPort(host, port), nil
}

func isInvalidInHost(c rune) bool {
	return c <= ' ' || c == 0x7f || strings.ContainsRune(`#@/\?"'<>[]{}|^`+"`", c)
}

// setPath parses the part of the URL after the addresses: a database, or the name of a
// primary.
func (t *target) setPath(path string) error {
	path = strings.TrimSuffix(path, "/")
	switch t.kind {
	case sentinel:
		if t.master = path; path == "" || strings.Contains(path, "/") {
			return &URLError{"master name", "is missing or invalid; must be redis+sentinel://host:port,host:port/NAME"}
		}
		return t.setDatabase("parameter db", t.take("db"))
	case cluster:
		if path != "" && path != "0" {
			return &URLError{"database", "must be 0 or empty for a cluster"}
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
		return &URLError{part, "must be a whole number from 0 to 1048576"}
	}
	t.database = n
	return nil
}

// take removes a parameter and returns its value.
func (t *target) take(name string) string {
	value := t.params.Get(name)
	t.params.Del(name)
	return value
}

// apply sets the options for which the URL has parameters. It removes these parameters.
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
				return &URLError{"parameter " + p.name, "must be a duration such as 500ms"}
			}
			*p.to = d
		}
	}
	if v := t.take("batching"); v != "" {
		on, err := strconv.ParseBool(v)
		if err != nil {
			return &URLError{"parameter batching", "must be true or false"}
		}
		o.NoBatching = !on
	}
	return nil
}

// client returns the settings of a rueidis client for the URL.
func (t *target) client() (*rueidis.ClientOption, error) {
	option := &rueidis.ClientOption{
		InitAddress: t.addresses, Username: t.user, Password: t.password, SelectDB: t.database,
		DisableCache: true, DisableRetry: true, ForceSingleClient: t.kind == single || t.kind == socket,
		ReadBufferEachConn: bufferBytes, WriteBufferEachConn: bufferBytes, ClientName: "headgate",
	}
	option.Dialer.Timeout = dialTimeout
	option.ConnWriteTimeout = connectionTimeout
	option.ClusterOption.MaxMovedRedirections = 16
	if err := t.setTLS(option); err != nil {
		return nil, err
	}
	switch t.kind {
	case sentinel:
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: t.master, Username: t.take("sentinel_user"), Password: t.take("sentinel_password"),
			TLSConfig: option.TLSConfig, Dialer: option.Dialer, TopologyRefreshInterval: sentinelRefresh,
		}
	case socket, single:
		option.InitAddress = t.addresses[:1] // the dialer tries all addresses
	}
	for name := range t.params {
		return nil, &URLError{fmt.Sprintf("parameter %.40q", name), "unknown; docs/operate/stores.md lists all parameters"}
	}
	return option, nil
}

const (
	bufferBytes       = 64 << 10
	dialTimeout       = time.Second
	connectionTimeout = 10 * time.Second
	sentinelRefresh   = 5 * time.Second
)

// setTLS applies the TLS parameters: ca, cert and key are paths of files, server_name
// is the name in the server's certificate, verify_name=false disables the verification of
// that name, and insecure disables the verification of the certificate.
func (t *target) setTLS(option *rueidis.ClientOption) error {
	ca, cert, key, name := t.take("ca"), t.take("cert"), t.take("key"), t.take("server_name")
	insecure, verifyName := t.take("insecure"), t.take("verify_name")
	if !t.secure {
		if ca+cert+key+name+insecure+verifyName != "" {
			return &URLError{"scheme", "TLS parameters require rediss://"}
		}
		return nil
	}
	skipVerify, err := strconv.ParseBool(cmp.Or(insecure, "false"))
	if err != nil {
		return &URLError{"parameter insecure", "must be true or false"}
	}
	named, err := strconv.ParseBool(cmp.Or(verifyName, "true"))
	if err != nil {
		return &URLError{"parameter verify_name", "must be true or false"}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, InsecureSkipVerify: skipVerify || !named}
	if !named && !skipVerify {
		config.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s, config.RootCAs) }
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return &URLError{"parameter ca", fmt.Sprintf("%.200q does not contain a readable certificate", ca)}
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return &URLError{"parameters cert and key", fmt.Sprintf("cannot load the certificate and key files: %.200s", err)}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	option.TLSConfig = config
	return nil
}

// verifyChain verifies the certificate of a server except for its name.
func verifyChain(s tls.ConnectionState, roots *x509.CertPool) error {
	intermediates := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates}); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}

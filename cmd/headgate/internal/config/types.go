package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// Address is the TCP address of a listener: host:port, or off.
type Address string

// Off disables a listener.
const Off Address = "off"

// Endpoint is the address of a listener that also supports Unix sockets: host:port,
// unix:/path, or off.
type Endpoint string

// Socket returns the path of the Unix socket; ok is false if the endpoint is not a Unix
// socket.
func (e Endpoint) Socket() (path string, ok bool) {
	return strings.CutPrefix(string(e), "unix:")
}

// Secret is a password or a token. Its value is never printed.
type Secret string

// masked replaces secrets in output.
const masked = "***"

// String returns *** for every secret that is not empty, so that no log or message
// contains it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// StoreURL is the URL of a store. It may contain a password; [StoreURL.Masked] removes
// it.
type StoreURL string

// Folder is the path of a folder. In a configuration file, it is relative to the folder
// of that file.
type Folder string

// Path is the path of a file. In a configuration file, it is relative to the folder of
// that file.
type Path string

// ChargeMode selects how the descriptors of one Envoy request are charged.
type ChargeMode string

// HostName is a host name without a port, or * for every name.
type HostName string

// Network is an IP network.
type Network struct{ netip.Prefix }

// HeaderName is the canonical name of a header field.
type HeaderName string

func parseHeaderName(s string) (HeaderName, error) {
	name, err := routing.ParseHeaderName(s)
	return HeaderName(name), err
}

// Method is an HTTP method in upper case.
type Method string

// Masked returns the URL with *** in place of the user name, the password and other
// parameters that may be secrets.
func (u StoreURL) Masked() string {
	text, query, _ := strings.Cut(string(u), "?")
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			text = scheme + "://***:***@" + rest[i+1:]
		}
	}
	if strings.Contains(query, "@") {
		return text + "?***" // the text before the “@” may be the end of a password that contains a question mark
	}
	var params []string
	for param := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(param, "=")
		for _, secret := range []string{"pass", "secret", "token", "auth", "user"} {
			if strings.Contains(strings.ToLower(name), secret) {
				param = name + "=***"
			}
		}
		params = append(params, param)
	}
	if query == "" {
		return text
	}
	return text + "?" + strings.Join(params, "&")
}

// String returns the masked URL, so that no log or message contains a password.
func (u StoreURL) String() string { return u.Masked() }

// String returns the network, or only its address if the network has a single address.
func (n Network) String() string {
	if n.IsSingleIP() {
		return n.Addr().String()
	}
	return n.Prefix.String()
}

func parseMethod(s string) (Method, error) {
	var m routing.Methods
	return Method(strings.ToUpper(s)), m.Add(s)
}

func parseHostName(s string) (HostName, error) {
	name := strings.TrimSuffix(s, ".")
	invalid := strings.ContainsFunc(name, func(r rune) bool {
		return r > '~' || r <= ',' || strings.ContainsRune("/:;<=>?@[]\\^`{|}", r)
	})
	if name != "*" && (name == "" || invalid) {
		return "", fmt.Errorf("%s is not a host name; must be a name such as headgate.internal, without "+
			"a port, or * for every name", clip(s))
	}
	return HostName(name), nil
}

func parseNetwork(s string) (Network, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return Network{netip.PrefixFrom(a, a.BitLen())}, nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return Network{}, fmt.Errorf("%s is not a network; must be a CIDR prefix such as "+
			"10.0.0.0/8 or 2001:db8::/32, or an IP address", clip(s))
	case p.Addr().Is4In6():
		return Network{}, fmt.Errorf("%s is a network of IPv4-mapped IPv6 addresses; "+
			"must be an IPv4 network such as 10.0.0.0/8", clip(s))
	case p != p.Masked():
		return Network{}, fmt.Errorf("%s has bits set after the prefix length; did you mean %s or %s?",
			clip(s), p.Masked(), p.Addr())
	}
	return Network{p}, nil
}

func parseAddress(s string) (Address, error) {
	if Address(s) == Off {
		return Off, nil
	}
	_, port, err := net.SplitHostPort(s)
	if n, err2 := strconv.ParseUint(port, 10, 16); err != nil || err2 != nil || n > 65535 {
		return "", fmt.Errorf("%s is not an address; must be host:port, such as 127.0.0.1:8080, or off%s",
			clip(s), addressHint(s, port))
	}
	return Address(s), nil
}

// addressHint returns what is wrong with the port of an invalid address, or the address
// that was probably meant, or "".
func addressHint(s, port string) string {
	if n, err := strconv.ParseUint(port, 10, 32); err == nil && n > 65535 {
		return "; the port " + port + " is above 65535"
	}
	if n, err := strconv.ParseUint(s, 10, 16); err == nil && n > 0 {
		return "; did you mean 127.0.0.1:" + s + "?"
	}
	return ""
}

func portOf(s string) string {
	_, port, _ := net.SplitHostPort(s)
	return port
}

func parseEndpoint(s string) (Endpoint, error) {
	if path, ok := Endpoint(s).Socket(); ok && path != "" {
		return Endpoint(s), nil
	}
	if _, err := parseAddress(s); err != nil {
		return "", fmt.Errorf("%s is not an address; must be host:port, such as 127.0.0.1:6380, "+
			"unix:/path, or off%s", clip(s), addressHint(s, portOf(s)))
	}
	return Endpoint(s), nil
}

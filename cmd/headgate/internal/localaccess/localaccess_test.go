package localaccess_test

import (
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

func TestAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:6070":          true,
		"127.8.9.10:0":            true,
		"[::1]:6070":              true,
		"[::ffff:127.0.0.1]:6070": true,
		"localhost:6070":          true,
		"LocalHost:6070":          true,
		"unix:/run/headgate.sock": true,
		":6070":                   false,
		"0.0.0.0:6070":            false,
		"[::]:6070":               false,
		"[::ffff:0.0.0.0]:6070":   false,
		"10.0.0.1:6070":           false,
		"[fe80::1%eth0]:6070":     false,
		"example.com:6070":        false,
		"a.localhost:6070":        false, // only "localhost" itself must be this machine
		"localhost.:6070":         false,
		"localhost.evil:6070":     false,
		"127.1:6070":              false,
		"127.0.0.1":               false, // without a port
		"":                        false,
	} {
		if got := localaccess.Address(address); got != want {
			t.Errorf("Address(%q): got %v, want %v", address, got, want)
		}
	}
}

func TestAddr(t *testing.T) {
	tcp := func(address string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)) }
	for _, c := range []struct {
		addr net.Addr
		want bool
	}{
		{tcp("127.0.0.1:80"), true},
		{tcp("[::1]:80"), true},
		{tcp("[::ffff:127.0.0.1]:80"), true},
		{&net.UnixAddr{Name: "/run/headgate.sock", Net: "unix"}, true},
		{&net.UnixAddr{Name: "@headgate", Net: "unix"}, true},
		{tcp("0.0.0.0:80"), false},
		{tcp("[::]:80"), false},
		{tcp("192.0.2.1:80"), false},
		{nil, false},
	} {
		if got := localaccess.Addr(c.addr); got != c.want {
			t.Errorf("Addr(%v): got %v, want %v", c.addr, got, c.want)
		}
	}
}

func TestHost(t *testing.T) {
	for _, c := range []struct {
		host        string
		local, name bool // wanted of Host, and of NamedHost with demo.example
	}{
		{"127.0.0.1:8080", true, true},
		{"127.0.0.1", true, true},
		{"[::1]:8080", true, true},
		{"[::1]", true, true},
		{"::1", true, true},
		{"[::ffff:127.0.0.1]:8080", true, true},
		{"[::ffff:7f00:1]", true, true},
		{"localhost", true, true},
		{"LOCALHOST:8080", true, true},
		{"localhost.:8080", true, true},
		{"page.localhost:8080", true, true},
		{"192.0.2.7:8080", false, true},
		{"[2001:db8::7]", false, true},
		{"demo.example:8080", false, true},
		{"Demo.Example.", false, true},
		{"evil.example", false, false},
		{"localhost.evil.example:8080", false, false},
		{"evillocalhost", false, false},
		{"127.0.0.1.evil.example", false, false},
		{"127.1", false, false},
		{"2130706433", false, false},
		{"0x7f.0.0.1", false, false},
		{"demo.example.evil", false, false},
		{"", false, false},
	} {
		if got := localaccess.Host(c.host); got != c.local {
			t.Errorf("Host(%q): got %v, want %v", c.host, got, c.local)
		}
		if got := localaccess.NamedHost(c.host, "demo.example"); got != c.name {
			t.Errorf("NamedHost(%q): got %v, want %v", c.host, got, c.name)
		}
	}
}

func TestCrossSite(t *testing.T) {
	for _, c := range []struct {
		name, method, site, dest, origin string
		want                             bool
	}{
		{"no browser", "POST", "", "", "", false},
		{"typed into the address bar", "GET", "none", "document", "", false},
		{"the page itself reads", "GET", "same-origin", "empty", "", false},
		{"the page itself writes", "POST", "same-origin", "empty", "http://localhost:8080", false},
		{"a link", "GET", "cross-site", "document", "", false},
		{"a link, HEAD", "HEAD", "same-site", "document", "", false},
		{"a script of another site reads", "GET", "cross-site", "empty", "", true},
		{"a script of another port reads", "GET", "same-site", "empty", "", true},
		{"an image of another site", "GET", "cross-site", "image", "", true},
		{"a frame of another site", "GET", "cross-site", "iframe", "", true},
		{"a form of another site", "POST", "cross-site", "document", "http://evil.example", true},
		{"an unknown site", "GET", "sideways", "empty", "", true},
		{"old browser, the page itself", "POST", "", "", "http://localhost:8080", false},
		{"old browser, another site", "POST", "", "", "http://evil.example", true},
		{"old browser, another port", "POST", "", "", "http://localhost:9090", true},
		{"old browser, sandboxed page", "POST", "", "", "null", true},
		{"old browser, another site reads", "GET", "", "", "http://evil.example", true},
		{"broken origin", "POST", "", "", "http://%zz", true},
	} {
		r := &http.Request{Method: c.method, Host: "localhost:8080", Header: make(http.Header)}
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Dest": c.dest, "Origin": c.origin} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if got := localaccess.CrossSite(r); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestProxied(t *testing.T) {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"} {
		h := make(http.Header)
		if h.Set(name, "x"); !localaccess.Proxied(h) {
			t.Errorf("%s: got false, want true", name)
		}
	}
	if localaccess.Proxied(http.Header{"Accept": {"*/*"}}) {
		t.Error("no field of a proxy: got true, want false")
	}
}

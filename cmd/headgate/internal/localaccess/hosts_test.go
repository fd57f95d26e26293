package localaccess_test

import (
	"net"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	every := &net.TCPAddr{IP: net.IPv4zero, Port: 8080}
	for _, c := range []struct {
		name      string
		rule      localaccess.Hosts
		host      string
		direct    bool // wanted of Allow
		forwarded bool // wanted of AllowForwarded
	}{
		{"no rule", localaccess.Hosts{}, "evil.example", true, true},
		{"loopback", localaccess.NewHosts(loopback, false, nil), "127.0.0.1:8080", true, true},
		{"loopback", localaccess.NewHosts(loopback, false, nil), "[::1]:8080", true, true},
		{"loopback", localaccess.NewHosts(loopback, false, nil), "localhost:8080", true, true},
		{"loopback", localaccess.NewHosts(loopback, false, nil), "192.0.2.7:8080", true, true},
		{"loopback, HTTP/1.0", localaccess.NewHosts(loopback, false, nil), "", true, true},
		{"rebinding", localaccess.NewHosts(loopback, false, nil), "evil.example:8080", false, false},
		{"rebinding, another notation of the port", localaccess.NewHosts(loopback, false, nil), "evil.example:08080", false, false},
		{"rebinding, not a port", localaccess.NewHosts(loopback, false, nil), "evil.example:8080x", false, false},
		{"rebinding, empty port", localaccess.NewHosts(&net.TCPAddr{IP: net.IPv6loopback, Port: 80}, false, nil), "evil.example:", false, false},
		{"an upstream of nginx", localaccess.NewHosts(loopback, false, nil), "headgate", false, true},
		{"the client's Host", localaccess.NewHosts(loopback, false, nil), "shop.example:8000", false, true},
		{"the client's IPv6 Host", localaccess.NewHosts(loopback, false, nil), "[2001:db8::8080]", true, true},
		{"rebinding, IPv6-like", localaccess.NewHosts(loopback, false, nil), "[evil]:8080", false, false},
		{"port 80", localaccess.NewHosts(&net.TCPAddr{IP: net.IPv6loopback, Port: 80}, false, nil), "evil.example", false, false},
		{"port 443", localaccess.NewHosts(&net.TCPAddr{IP: net.IPv6loopback, Port: 443}, true, []string{"a.example"}), "evil.example", false, false},
		{"TLS", localaccess.NewHosts(loopback, true, nil), "headgate:8080", true, true},
		{"other machines", localaccess.NewHosts(every, false, nil), "headgate:8080", true, true},
		{"other machines, named", localaccess.NewHosts(every, false, []string{"headgate"}), "headgate:8080", true, true},
		{"other machines, another name", localaccess.NewHosts(every, false, []string{"headgate"}), "evil.example:8080", false, false},
		{"named", localaccess.NewHosts(loopback, false, []string{"headgate"}), "HeadGate.:8080", true, true},
		{"every name", localaccess.NewHosts(loopback, false, []string{"a", "*"}), "evil.example:8080", true, true},
	} {
		if got := c.rule.Allow(c.host); got != c.direct {
			t.Errorf("%s: Allow(%q): got %v want %v", c.name, c.host, got, c.direct)
		}
		if got := c.rule.AllowForwarded(c.host); got != c.forwarded {
			t.Errorf("%s: AllowForwarded(%q): got %v want %v", c.name, c.host, got, c.forwarded)
		}
	}
}

// The usual hosts cost no memory.
func TestHostsDoNotAllocate(t *testing.T) {
	rule := localaccess.NewHosts(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, false, []string{"headgate.internal"})
	for _, host := range []string{"127.0.0.1:8080", "localhost:8080", "[::1]:8080"} {
		if n := testing.AllocsPerRun(1000, func() { rule.Allow(host) }); n != 0 {
			t.Errorf("%s: got %v allocations want 0", host, n)
		}
	}
}

package clientaddr

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

var (
	tens    = netip.MustParsePrefix("10.0.0.0/8")
	client  = netip.MustParseAddr("203.0.113.9")
	proxy   = "10.0.0.1:4711"
	proxyIP = netip.MustParseAddr("10.0.0.1")
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*Options{
		"hops and networks":       {TrustedHops: 1, TrustedProxies: []netip.Prefix{tens}},
		"negative hops":           {TrustedHops: -1},
		"more hops than entries":  {TrustedHops: maxEntries + 1},
		"a network of nothing":    {TrustedProxies: []netip.Prefix{tens, {}}},
		"a network too long":      {TrustedProxies: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), 33)}},
		"mapped beyond IPv4":      {TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/8")}},
		"a name with a space":     {Header: "X Real IP"},
		"a name with a colon":     {Header: "X-Real-IP:"},
		"a name with a line feed": {Header: "X-Real-IP\n"},
		"a name with an umlaut":   {Header: "X-Réal-IP"},
		"a name of a space":       {Header: " "},
	} {
		if r, err := New(o); !errors.Is(err, ErrInvalidOptions) || r != nil {
			t.Errorf("%s: got %v, %v, want an error that is ErrInvalidOptions", name, r, err)
		}
	}
}

func TestNewAcceptsValidOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*Options{
		"nil":                {},
		"hops and a socket":  {TrustedHops: maxEntries, TrustUnix: true},
		"everybody":          {TrustedProxies: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}},
		"a header by itself": {Header: "CF-Connecting-IP"},
		"an unusual name":    {Header: "x!#$%&'*+-.^_`|~9"},
	} {
		if _, err := New(o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil); err != nil {
		t.Error(err)
	}
}

func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	o := &Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	r := mustNew(t, o)
	o.TrustedProxies[0] = tens
	if got := r.AddrOf(proxy, http.Header{"X-Forwarded-For": {client.String()}}); got != proxyIP {
		t.Errorf("a network changed after New: got %s, want %s", got, proxyIP)
	}
}

func TestLongHeaderFields(t *testing.T) {
	t.Parallel()
	r := mustNew(t, &Options{TrustedProxies: []netip.Prefix{tens}})
	f := mustNew(t, &Options{TrustedProxies: []netip.Prefix{tens}, Header: "Forwarded"})
	h := mustNew(t, &Options{TrustedHops: maxEntries})
	proxies := func(n int) string { return strings.Repeat(", 10.0.0.2", n) }
	for _, c := range []struct {
		name  string
		r     *Resolver
		field string
		want  string
	}{
		{"65,000 inventions", r, strings.Repeat("6.6.6.6, ", 65000) + client.String(), client.String()},
		{"maximum number of trusted entries", r, client.String() + proxies(maxEntries-1), client.String()},
		{"one trusted entry too many", r, client.String() + proxies(maxEntries), "10.0.0.2"},
		{"65,000 trusted entries", r, client.String() + proxies(65000), "10.0.0.2"},
		{"maximum number of hops", h, "6.6.6.6, " + client.String() + proxies(maxEntries-1), client.String()},
		{"one hop too few", h, client.String() + proxies(maxEntries-2), "10.0.0.1"},
		{"1 MB without a comma", r, strings.Repeat("1", 1<<20), "10.0.0.1"},
		{"1 MB of zone", r, "fe80::9%" + strings.Repeat("z", 1<<20), "10.0.0.1"},
		{"1 MB of quotes", f, strings.Repeat(`"`, 1<<20), "10.0.0.1"},
		{"1 MB of escapes", f, `for="` + strings.Repeat(`\1`, 1<<19) + `"`, "10.0.0.1"},
		{"1 MB of backslashes", f, strings.Repeat(`\`, 1<<20) + `", for=` + client.String(), client.String()},
		{"1 MB of pairs", f, strings.Repeat("a=b;", 1<<18) + "for=" + client.String(), client.String()},
		{"1 MB of semicolons", f, strings.Repeat(";", 1<<20) + "for=" + client.String(), client.String()},
	} {
		name := http.CanonicalHeaderKey(c.r.header)
		if got := c.r.AddrOf(proxy, http.Header{name: {c.field}}); got.String() != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// Parsing time is linear in the size of the header.
func BenchmarkBackslashesAndQuotes(b *testing.B) {
	r := mustNew(b, &Options{TrustedProxies: []netip.Prefix{tens}, Header: "Forwarded"})
	for _, n := range []int{1 << 10, 1 << 14, 1 << 18} {
		header := http.Header{"Forwarded": {`for=";` + strings.Repeat(`\\\"`, n/4) + `"`}}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				r.AddrOf(proxy, header)
			}
		})
	}
}

func TestWarnsOnce(t *testing.T) {
	t.Parallel()
	var said []string
	r := mustNew(t, &Options{Warn: func(message string) { said = append(said, message) }})
	r.AddrOf("203.0.113.9:4711", http.Header{"X-Forwarded-For": {"6.6.6.6"}})
	r.AddrOf(proxy, http.Header{"X-Real-Ip": {"6.6.6.6"}})
	r.AddrOf(proxy, nil)
	if len(said) != 0 {
		t.Fatalf("before a proxy asked: %q", said)
	}
	for range 3 {
		r.AddrOf(proxy, http.Header{"X-Forwarded-For": {"6.6.6.6"}})
	}
	if len(said) != 1 || !strings.Contains(said[0], "X-Forwarded-For") || !strings.Contains(said[0], "TrustedProxies") {
		t.Fatalf("got %q, want one warning that says what to do", said)
	}
	if strings.Contains(said[0], "6.6.6.6") || strings.Contains(said[0], "10.0.0.1") {
		t.Errorf("a warning tells an address: %q", said[0])
	}
}

func TestWarningPerPeer(t *testing.T) {
	t.Parallel()
	field := http.Header{"Forwarded": {"for=6.6.6.6"}}
	for _, c := range []struct {
		peer   string
		o      Options
		header http.Header
		want   bool
	}{
		{"10.0.0.1:1", Options{}, field, true},
		{"172.31.255.1:1", Options{}, field, true},
		{"192.168.0.1:1", Options{}, field, true},
		{"127.0.0.1:1", Options{}, field, true},
		{"169.254.0.1:1", Options{}, field, true},
		{"100.64.0.1:1", Options{}, field, true},
		{"100.127.255.255:1", Options{}, field, true},
		{"[::1]:1", Options{}, field, true},
		{"[fd00::1]:1", Options{}, field, true},
		{"[fe80::1%eth0]:1", Options{}, field, true},
		{"[::ffff:10.0.0.1]:1", Options{}, field, true},
		{"@", Options{}, field, true},
		{"/run/nginx.sock", Options{}, field, true},
		{"10.0.0.1:1", Options{Header: "x-real-ip"}, http.Header{"X-Real-Ip": {"6.6.6.6"}}, true},
		{"10.0.0.1:1", Options{}, http.Header{"X-Real-Ip": {"6.6.6.6"}}, false},
		{"203.0.113.9:1", Options{}, field, false},
		{"172.32.0.1:1", Options{}, field, false},
		{"100.128.0.1:1", Options{}, field, false},
		{"[2001:db8::9]:1", Options{}, field, false},
		{"[64:ff9b::10.0.0.1]:1", Options{}, field, false},
		{"pipe", Options{}, field, false},
		{"10.0.0.1:1", Options{}, http.Header{}, false},
		{"192.168.0.1:1", Options{TrustedProxies: []netip.Prefix{tens}}, field, false},
		{"10.0.0.1:1", Options{TrustedProxies: []netip.Prefix{tens}}, field, false},
		{"10.0.0.1:1", Options{TrustedHops: 1}, field, false},
		{"10.0.0.1:1", Options{TrustUnix: true}, field, false},
	} {
		warned := false
		c.o.Warn = func(string) { warned = true }
		if mustNew(t, &c.o).AddrOf(c.peer, c.header); warned != c.want {
			t.Errorf("peer %s, options %+v, %v: warned is %t, want %t", c.peer, c.o.TrustedProxies, c.header, warned, c.want)
		}
	}
}

func TestConcurrentUseWarnsOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	warnings := 0
	r := mustNew(t, &Options{Warn: func(string) { mu.Lock(); defer mu.Unlock(); warnings++ }})
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 100 {
				if got := r.AddrOf(proxy, http.Header{"X-Forwarded-For": {"6.6.6.6"}}); got != proxyIP {
					t.Errorf("got %s, want %s", got, proxyIP)
				}
			}
		})
	}
	callers.Wait()
	if warnings != 1 {
		t.Errorf("%d warnings, want 1", warnings)
	}
}

func TestKeyOfUngroupedPrefixes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prefix netip.Prefix
		want   string
	}{
		{netip.Prefix{}, "unknown"},
		{netip.PrefixFrom(client, -1), "unknown"},
		{netip.PrefixFrom(client, 24), "203.0.113.9/24"},
	} {
		if got := string(AppendKey(nil, c.prefix)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.prefix, got, c.want)
		}
	}
}

func TestTrusts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		peer string
		o    Options
		want bool
	}{
		{"10.0.0.1:4711", Options{}, false},
		{"10.0.0.1:4711", Options{TrustedProxies: []netip.Prefix{tens}}, true},
		{"[::ffff:10.0.0.1]:4711", Options{TrustedProxies: []netip.Prefix{tens}}, true},
		{"203.0.113.9:1", Options{TrustedProxies: []netip.Prefix{tens}}, false},
		{"203.0.113.9:1", Options{TrustedHops: 1}, true},
		{"@", Options{TrustedProxies: []netip.Prefix{tens}}, false},
		{"@", Options{TrustUnix: true}, true},
		{"pipe", Options{TrustUnix: true, TrustedProxies: []netip.Prefix{tens}}, false},
	} {
		if got := mustNew(t, &c.o).Trusts(c.peer); got != c.want {
			t.Errorf("peer %s, options %+v: got %t, want %t", c.peer, c.o, got, c.want)
		}
	}
}

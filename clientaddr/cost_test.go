package clientaddr

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	proxies := []netip.Prefix{tens}
	list := http.Header{"X-Forwarded-For": {"6.6.6.6", "2001:db8::9, [2001:db8::8]:443, 10.0.0.2:80"}}
	field := http.Header{"Forwarded": {`for=6.6.6.6;by=", for="[2001:db8::9]:443";proto=https`, `for=10.0.0.2`}}
	named := http.Header{"X-Real-Ip": {"203.0.113.9"}}
	for _, c := range []struct {
		name   string
		o      *Options
		peer   string
		header http.Header
		want   float64
	}{
		{"IPv4, nobody trusted", nil, "203.0.113.9:4711", list, 0},
		{"IPv6, nobody trusted", nil, "[2001:db8::9]:4711", list, 0},
		{"mapped, nobody trusted", nil, "[::ffff:203.0.113.9]:4711", list, 0},
		{"with a zone", nil, "[fe80::9%eth0]:4711", nil, 0},
		{"a private peer after the warning", &Options{Warn: func(string) {}}, proxy, list, 0},
		{"a socket", nil, "@", nil, 0},
		{"an untrusted peer beside proxies", &Options{TrustedProxies: proxies}, "203.0.113.9:4711", list, 0},
		{"a list", &Options{TrustedProxies: proxies}, proxy, list, 0},
		{"hops", &Options{TrustedHops: 2}, proxy, list, 0},
		{"Forwarded", &Options{TrustedProxies: proxies, Header: "Forwarded"}, proxy, field, 0},
		{"a named field", &Options{TrustedProxies: proxies, Header: "X-Real-IP"}, proxy, named, 0},
		{"unknown", &Options{TrustedProxies: proxies}, proxy, http.Header{"X-Forwarded-For": {"unknown"}}, 0},
		{"junk", &Options{TrustedProxies: proxies}, proxy, http.Header{"X-Forwarded-For": {"1.2.3"}}, 0},
		{"junk with colons", &Options{TrustedProxies: proxies}, proxy, http.Header{"X-Forwarded-For": {"a:b:c"}}, 1},
		{"escapes", &Options{TrustedProxies: proxies, Header: "Forwarded"}, proxy, http.Header{"Forwarded": {`for="\1.2.3.4"`}}, 1},
		{
			"a thousand of ours", &Options{TrustedProxies: proxies},
			proxy,
			http.Header{"X-Forwarded-For": {strings.Repeat(", 10.0.0.2", 1000)}},
			0,
		},
		{
			"a megabyte of escapes", &Options{TrustedProxies: proxies, Header: "Forwarded"},
			proxy,
			http.Header{"Forwarded": {`for="` + strings.Repeat(`\1`, 1<<19) + `"`}},
			0,
		},
	} {
		r := mustNew(t, c.o)
		r.warned.Store(true)
		if got := testing.AllocsPerRun(100, func() { r.AddrOf(c.peer, c.header) }); got != c.want {
			t.Errorf("%s: %v allocations, want %v", c.name, got, c.want)
		}
	}
}

func TestKeysDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	room := make([]byte, 0, 64)
	for _, text := range []string{"203.0.113.9", "::ffff:203.0.113.9", "64:ff9b::203.0.113.9", "2001:db8:1:2:3:4:5:6", "none"} {
		a := addrOf(t, text)
		if got := testing.AllocsPerRun(100, func() { AppendKey(room, Group(a, 64)) }); got != 0 {
			t.Errorf("%s: %v allocations, want 0", text, got)
		}
	}
}

func BenchmarkAddr(b *testing.B) {
	list := http.Header{"X-Forwarded-For": {"6.6.6.6", "203.0.113.9, 10.0.0.2"}}
	field := http.Header{"Forwarded": {`for=6.6.6.6`, `for="203.0.113.9:443";proto=https, for=10.0.0.2`}}
	proxies := []netip.Prefix{tens}
	for _, c := range []struct {
		name   string
		o      *Options
		peer   string
		header http.Header
	}{
		{"nobody trusted, IPv4", nil, "203.0.113.9:4711", list},
		{"nobody trusted, IPv6", nil, "[2001:db8:1:2:3:4:5:6]:4711", list},
		{"list", &Options{TrustedProxies: proxies}, proxy, list},
		{"Forwarded", &Options{TrustedProxies: proxies, Header: "Forwarded"}, proxy, field},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := mustNew(b, c.o)
			b.ReportAllocs()
			for b.Loop() {
				r.AddrOf(c.peer, c.header)
			}
		})
	}
}

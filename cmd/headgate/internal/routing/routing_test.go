package routing_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

func mustHost(t testing.TB, text string) (h routing.Host) {
	t.Helper()
	if text == "" {
		return h
	}
	h, err := routing.ParseHost(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const none = -1

// firstRoute returns the index of the first route that table returns for r, or none.
func firstRoute(table *routing.Table, r *routing.Request) int {
	if routes := table.AppendRoutes(nil, r); len(routes) > 0 {
		return routes[0]
	}
	return none
}

func mustPath(t testing.TB, text string) (p routing.Path) {
	t.Helper()
	if text == "" {
		return p
	}
	p, err := routing.ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustKey(t testing.TB, text string) routing.Key {
	t.Helper()
	k, err := routing.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// route reads “host method,method path”; a dash is all.
func route(t testing.TB, text string, policies ...string) routing.Route {
	t.Helper()
	part := strings.Fields(strings.ReplaceAll(text, "-", ""))
	for i, p := range strings.Fields(text) {
		if p == "-" {
			part = slices.Insert(part, i, "")
		}
	}
	r := routing.Route{Host: mustHost(t, part[0]), Path: mustPath(t, part[2]), Policies: policies}
	for _, m := range strings.FieldsFunc(part[1], func(r rune) bool { return r == ',' }) {
		if err := r.Methods.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, yes, no string }{
		{"example.com", "example.com EXAMPLE.com example.com:443 example.com. Example.Com.:80 example.com: example.com:80:90", "www.example.com example.org xexample.com example.com.evil.org"},
		{"*.example.com", "a.example.com A.B.EXAMPLE.COM:8443 a.example.com.", "example.com aexample.com .example.com a.example.com.evil.org"},
		{"*", "anything [::1]:80 x", ""},
		{"[2001:DB8::1]", "[2001:db8::1] [2001:db8::1]:443 2001:db8::1 [2001:0DB8:0:0::0001] [2001:db8:0:0:0:0:0:1]:80", "2001:db8::2 [2001:db8::2] 2001"},
		{"203.0.113.9", "203.0.113.9 203.0.113.9:80", "203.0.113.99"},
	} {
		table := routing.NewTable([]routing.Route{{Host: mustHost(t, c.pattern)}}, nil)
		for want, hosts := range map[int]string{0: c.yes, none: c.no} {
			for host := range strings.FieldsSeq(hosts) {
				if got := firstRoute(table, &routing.Request{Host: host, Path: "/"}); got != want {
					t.Errorf("%s and host %s: got %d want %d", c.pattern, host, got, want)
				}
			}
		}
	}
}

// Spellings of a path that must match the route of the path, and other paths that must
// not.
func TestPathSpellings(t *testing.T) {
	t.Parallel()
	for pattern, paths := range map[string][2]string{
		"/login": {
			`/login /login/ //login ///login// /./login /login/. /x/../login /%6cogin /%6C%6f%67in /LOGIN /Login /%4Cogin /login;a=b /login;jsessionid=1/ ` +
				`/;x/login /a/..;/login /a/..;b=c/login /%2e/login /a/%2e%2e/login /a%2f..%2flogin /a/..%2flogin /%2flogin /login%2f \login /\login /a\..\login /a%5c..%5clogin ` +
				`/login#x /../login /../../login login /login%3bx=y /login/..;/login /x%00/..%2flogin ` +
				`/login%00 /login%20 /login%09 /login. /login.. /login.%20. /%20login /login%20/ /login%20;x /login.;x /login%2e%20 /x/..%20/login /.../login /login%7f ` +
				`/login;x=%2f1 /login;x=%5c1 /login;x\1 /login%3bx%2f1 /x%2fb/../login /x%5cb/../login /x1#/../login /x/..%2fx\b/../login /a%2f1/../login;x%2f1`,
			`/ /logi /login2 /x/login /login/x /log%20in /login%252f /login%2525 /..login /log;in/ /login.x /.login /login%20x /login%00.html /log%00in`,
		},
		"/api/*":     {"/api/x /API/X /api//x/ /api/a%2fb /api%2fa\\b /api/x/../y /api/x;y", "/api /api/ /api/x/y /apix"},
		"/api/**":    {"/api /api/ /api/x /api/x/y/z /api/../api/x /x/../api /api;x /api%2fx", "/apix / /x/api"},
		"/**":        {"/ /x /x/y", ""},
		"/":          {"/ // /. /x/..", "/x"},
		"/a/**/b":    {"/a/b /a/x/b /a/x/y/b /a/b/b", "/a /b /a/x /a/b/c"},
		"/**/x/**/y": {"/x/y /a/x/b/y /x/x/y/y /y/x/y", "/y/x /x /y"},
		"/*/*/":      {"/a/b", "/a /a/b/c"},
		"/größe":     {"/größe /gr%c3%b6%C3%9fe /GRößE", "/grösse /gr%f6%dfe"},
	} {
		table := routing.NewTable([]routing.Route{{Path: mustPath(t, pattern)}}, nil)
		for i, want := range []bool{true, false} {
			for path := range strings.FieldsSeq(paths[i]) {
				if got := firstRoute(table, &routing.Request{Path: path}) != none; got != want {
					t.Errorf("%s and path %s: got %v want %v", pattern, path, got, want)
				}
			}
		}
	}
}

// If the two readings of a path match two routes, the policies of both apply.
func TestBothReadingsApply(t *testing.T) {
	t.Parallel()
	table := routing.NewTable([]routing.Route{
		route(t, "- - /static/**"),
		route(t, "- - /files/*", "files"),
		route(t, "- POST,purge /login", "login", "all"),
		route(t, "api.example.com - /**", "all"),
	}, map[string]routing.Key{"all": mustKey(t, "host")})
	for _, c := range []struct {
		method, host, path string
		want               string
	}{
		{"POST", "", "/login", "login:192.0.2.1 all:"},
		{"post", "", "/login", "login:192.0.2.1 all:"},
		{"PURGE", "", "/login", "login:192.0.2.1 all:"},
		{"GET", "", "/login", ""},
		{"", "", "/login", ""},
		{"POST", "", "/static/..%2flogin", "login:192.0.2.1 all:"},
		{"POST", "", `/static/..\login`, "login:192.0.2.1 all:"},
		{"POST", "", "/static/../login", "login:192.0.2.1 all:"},
		{"GET", "", "/static/login", ""},
		{"GET", "", "/files/a%2fb", "files:192.0.2.1"},
		{"POST", "api.example.com", "/files/..%2flogin", "files:192.0.2.1 login:192.0.2.1 all:api.example.com"},
		{"POST", "api.example.com:80", "/x/..%2flogin", "all:api.example.com login:192.0.2.1"},
		{"GET", "API.example.com", "/x", "all:api.example.com"},
		{"GET", "example.com", "/x", ""},
	} {
		r := &routing.Request{Method: c.method, Host: c.host, Path: c.path, ClientAddr: netip.MustParseAddr("192.0.2.1")}
		var got []string
		for _, charge := range table.AppendPolicyKeys(nil, r) {
			got = append(got, charge.Policy+":"+charge.Key)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s %s%s: got %q want %q", c.method, c.host, c.path, text, c.want)
		}
	}
}

// The keys of all paths that could have any number of lenient readings are equal.
func TestAmbiguousPathsShareKey(t *testing.T) {
	t.Parallel()
	k := mustKey(t, "path")
	for path, want := range map[string]string{
		"/q1%2fb/../login": "ambiguous", "/q2%5cb/../login": "ambiguous", "/login;x=%2f1": "ambiguous", "/x1#/../login": "ambiguous",
		"/projects/a%2Fb": "/projects/a/b", "/x/../login": "/login",
	} {
		if got := k.Of(&routing.Request{Path: path}); got != want {
			t.Errorf("%s: got %q want %q", path, got, want)
		}
	}
}

// A route for GET also matches HEAD, because servers run the same code for both. A field
// that overrides the method has no effect: a client could choose its route with it.
func TestMethods(t *testing.T) {
	t.Parallel()
	table := routing.NewTable([]routing.Route{route(t, "- GET /export", "export"), route(t, "- POST /login", "login"), route(t, "- HEAD /probe", "probe")}, nil)
	for _, c := range []struct{ method, path, override, want string }{
		{"GET", "/export", "", "export"},
		{"HEAD", "/export", "", "export"},
		{"head", "/export", "", "export"},
		{"POST", "/export", "", ""},
		{"POST", "/export", "GET", ""},
		{"HEAD", "/probe", "", "probe"},
		{"GET", "/probe", "", ""},
		{"POST", "/login", "GET", "login"},
		{"GET", "/login", "POST", ""},
		{"HEAD", "/login", "", ""},
	} {
		r := &routing.Request{Method: c.method, Path: c.path, Header: http.Header{}}
		if c.override != "" {
			r.Header = http.Header{"X-Http-Method-Override": {c.override}, "X-Http-Method": {c.override}, "X-Method-Override": {c.override}}
		}
		got := ""
		for _, charge := range table.AppendPolicyKeys(nil, r) {
			got += charge.Policy
		}
		if got != c.want {
			t.Errorf("%s %s, overridden by %q: got %q want %q", c.method, c.path, c.override, got, c.want)
		}
	}
}

func TestUnreachableRoutes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		routes []string
		want   string
	}{
		{[]string{"- - /a", "- - /b"}, "[]"},
		{[]string{"- - /a", "- - /A/"}, "[{1 [0]}]"},
		{[]string{"- - -", "- - /a"}, "[{1 [0]}]"},
		{[]string{"- - /**", "- - -"}, "[{1 [0]}]"},
		{[]string{"- - /a", "- - -"}, "[]"},
		{[]string{"- - /a", "- - /"}, "[]"},
		{[]string{"- - /*", "- - /"}, "[]"},
		{[]string{"- - /**", "- - /"}, "[{1 [0]}]"},
		{[]string{"- - /a/b", "- - /b"}, "[]"},
		{[]string{"- - /*/b", "- - /b"}, "[]"},
		{[]string{"- - /a/*", "- - /a/**"}, "[]"},
		{[]string{"- - /a/**", "- - /a/*"}, "[{1 [0]}]"},
		{[]string{"- - /a/**", "- - /a/*/**"}, "[{1 [0]}]"},
		{[]string{"- - /**/*", "- - /*/**"}, "[{1 [0]}]"},
		{[]string{"- - /*/**", "- - /**/*"}, "[{1 [0]}]"},
		{[]string{"- - /**/x", "- - /a/**/x"}, "[{1 [0]}]"},
		{[]string{"- - /a/**/x", "- - /**/x"}, "[]"},
		{[]string{"- - /*/x", "- - /a/*"}, "[]"},
		{[]string{"*.a.b - -", "x.a.b - /p"}, "[{1 [0]}]"},
		{[]string{"*.b - -", "*.a.b - -"}, "[{1 [0]}]"},
		{[]string{"*.a.b - -", "*.b - -"}, "[]"},
		{[]string{"*.a.b - -", "a.b - -"}, "[]"},
		{[]string{"*.a.b - -", "- - -"}, "[]"},
		{[]string{"a.b - -", "*.a.b - -"}, "[]"},
		{[]string{"a.b GET -", "a.b POST -"}, "[]"},
		{[]string{"a.b GET,HEAD -", "a.b get /x"}, "[{1 [0]}]"},
		{[]string{"- GET -", "- HEAD -"}, "[{1 [0]}]"},
		{[]string{"- HEAD -", "- GET -"}, "[]"},
		{[]string{"- GET -", "- GET,HEAD -"}, "[{1 [0]}]"},
		{[]string{"- GET -", "- PURGE -", "- PURGE,GET /x", "- - /x"}, "[{2 [0 1]}]"},
		{[]string{"- GET -", "- - -", "- GET,POST /x"}, "[{2 [0 1]}]"},
	} {
		var routes []routing.Route
		for _, text := range c.routes {
			routes = append(routes, route(t, text))
		}
		if got := fmt.Sprint(routing.UnreachableRoutes(routes)); got != c.want {
			t.Errorf("%q: got %s want %s", c.routes, got, c.want)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8:1:2:3::4")
	request := func(addr netip.Addr, fields ...string) *routing.Request {
		h := make(http.Header)
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			h.Add(name, value)
		}
		return &routing.Request{Method: "post", Host: "Shop.example.com:443", Path: "//Cart/./a%20b/", Header: h, ClientAddr: addr}
	}
	long := strings.Repeat("k", 1025)
	for _, c := range []struct {
		key  string
		r    *routing.Request
		want string
	}{
		{"ip", request(v4), "203.0.113.9"},
		{"ip", request(netip.MustParseAddr("::ffff:203.0.113.9")), "203.0.113.9"},
		{"ip", request(v6), "2001:db8:1:2::/64"},
		{" ip/48 ", request(v6), "2001:db8:1::/48"},
		{"ip/48", request(v4), "203.0.113.9"},
		{"ip", request(netip.Addr{}), "unknown"},
		{"method", request(v4), "POST"},
		{"host", request(v4), "shop.example.com"},
		{"path", request(v4), "/cart/a b"},
		{"header:x-api-key", request(v4, "X-Api-Key: Acme"), "Acme"},
		{"header:x-api-key", request(v4, "X-Api-Key: a", "X-Api-Key: b"), "a"},
		{"header:X-API-Key", request(v4), ""},
		{"header:X", request(v4, "X: 203.0.113.9"), "203.0.113.9"},
		{"header:X, ip", request(v4, "X: acme"), "acme"},
		{"header:X, ip", request(v4), "203.0.113.9"},
		{"header:X, ip", request(v4, "X: 198.51.100.1"), "header:x=198.51.100.1"},
		{"header:X, ip", request(v4, "X: 2001:db8::/64"), "header:x=2001:db8::/64"},
		{"header:X, ip", request(v4, "X: unknown"), "header:x=unknown"},
		{"header:X, ip", request(v4, "X: header:x=1"), "header:x=header:x=1"},
		{"header:X, ip", request(v4, "X: ip=1"), "header:x=ip=1"},
		{"header:X, header:Y", request(v4, "X: a", "Y: b"), "a"},
		{"header:X, header:Y", request(v4, "Y: b"), "header:y=b"},
		{"header:X, header:Y", request(v4, "X: header:y=b"), "header:x=header:y=b"},
		{"header:X, header:Y", request(v4), "header:y="},
		{"ip+path", request(v4), "203.0.113.9+/cart/a b"},
		{"header:X+header:Y", request(v4, "X: a+b", `Y: c\d`), `a\+b+c\\d`},
		{"header:X+header:Y", request(v4, "X: a"), "a+"},
		{"header:X+ip, ip", request(v4, "X: a"), "a+203.0.113.9"},
		{"header:X+ip, ip", request(v4), "203.0.113.9"},
		{"ip/48, ip", request(netip.Addr{}), "unknown"},
		{"header:X", request(v4, "X: "+long[1:]), long[1:]},
		{"header:X", request(v4, "X: "+long), "sha256=8b3a3e8b6d9c"},
		{"header:X", request(v4, "X: sha256=ab"), "sha256="},
	} {
		k := mustKey(t, c.key)
		got := k.Of(c.r)
		if got != c.want && !(strings.HasPrefix(c.want, "sha256=") && strings.HasPrefix(got, "sha256=") && len(got) == 71) {
			t.Errorf("%s: got %q want %q", c.key, got, c.want)
		}
		if again := mustKey(t, k.String()); again.Of(c.r) != got {
			t.Errorf("%s is written %s, which makes %q", c.key, k, again.Of(c.r))
		}
	}
	if got := (routing.Key{}).Of(request(v6)); got != "2001:db8:1:2::/64" {
		t.Errorf("the zero Key: got %q want the address", got)
	}
}

func TestKeyAllocatesNothing(t *testing.T) {
	r := &routing.Request{
		Method: "POST", Host: "shop.example.com:443", Path: "/cart/1", Header: http.Header{"X-Api-Key": {"acme"}}, ClientAddr: netip.MustParseAddr("2001:db8::1"),
	}
	for _, text := range []string{"ip", "header:X-Api-Key", "header:X-Api-Key, ip", "header:Y, ip", "ip+path+method+host"} {
		k := mustKey(t, text)
		dst := make([]byte, 0, 256)
		if got := testing.AllocsPerRun(100, func() { dst = k.Append(dst[:0], r) }); got > 0 {
			t.Errorf("%s: %v allocations, want 0", text, got)
		}
	}
	table := routing.NewTable(manyRoutes(t, 100), nil)
	if got := testing.AllocsPerRun(100, func() { table.AppendRoutes(make([]int, 0, 2), r) }); got > 0 {
		t.Errorf("a match: %v allocations, want 0", got)
	}
}

func manyRoutes(t testing.TB, n int) []routing.Route {
	t.Helper()
	var routes []routing.Route
	for i := range n {
		routes = append(routes, route(t, fmt.Sprintf("*.example%d.com POST,PUT /api/v%d/*/items/**", i, i), "p"))
	}
	return routes
}

// T11: two requests that differ in a part of the key never share it. The normal form of a
// parsed key parses to an equal key.
func FuzzKey(f *testing.F) {
	f.Add("header:X, ip", "acme", "", "203.0.113.9", "", "", uint32(0xcb007109))
	f.Add("header:X+header:Y, header:Y, ip", "a+b", "c", "a", "b+c", `\`, uint32(1))
	f.Add("ip+header:X", "header:x=1", "1", "", "", "", uint32(2))
	f.Fuzz(func(t *testing.T, text, x1, y1, x2, y2, host string, addr uint32) {
		k, err := routing.ParseKey(text)
		if err != nil {
			mustPoint(t, err, text)
			return
		}
		if again, err := routing.ParseKey(k.String()); err != nil || again.String() != k.String() {
			t.Fatalf("%q is written %q, which is %v, error %v", text, k.String(), again, err)
		}
		one := &routing.Request{Header: http.Header{"X": {x1}, "Y": {y1}}, Host: host, ClientAddr: netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)})}
		two := &routing.Request{Header: http.Header{"X": {x2}, "Y": {y2}}, Host: host, ClientAddr: netip.AddrFrom4([4]byte{byte(addr), 2, 3, 4})}
		a, b := k.Of(one), k.Of(two)
		if len(a) > 1024 || len(b) > 1024 {
			t.Fatalf("%q: keys of %d and %d bytes", text, len(a), len(b))
		}
		if a == b && parts(k, one) != parts(k, two) {
			t.Fatalf("%s: X %q Y %q %v and X %q Y %q %v share the key %q", k, x1, y1, one.ClientAddr, x2, y2, two.ClientAddr, a)
		}
	})
}

// parts is what a key is made of, stated a second time: which alternative, and its parts.
func parts(k routing.Key, r *routing.Request) string {
	alternatives := strings.Split(k.String(), ", ")
	for i, a := range alternatives {
		var values []string
		whole := true
		for name := range strings.SplitSeq(a, "+") {
			v := "?"
			if field, ok := strings.CutPrefix(name, "header:"); ok {
				v = r.Header.Get(field)
				whole = whole && v != ""
			} else if strings.HasPrefix(name, "ip") {
				v = r.ClientAddr.String()
			} else if name == "host" {
				whole = whole && r.Host != ""
			}
			values = append(values, v)
		}
		if whole || i == len(alternatives)-1 {
			return fmt.Sprintf("%s %q", a, values)
		}
	}
	return ""
}

func mustPoint(t *testing.T, err error, text string) {
	t.Helper()
	var e *routing.SyntaxError
	if !errors.As(err, &e) || e.Input != text || e.Offset < 0 || e.Offset+e.Length > len(text) || e.Length < 0 || e.Reason == "" || e.Error() == "" {
		t.Fatalf("%q: got error %+v want one that points into it", text, err)
	}
}

// The normal form of a parsed pattern parses to an equal pattern, which covers itself and
// matches its own paths.
func FuzzRoute(f *testing.F) {
	f.Add("*.example.com", "/api/**", "/api/*/x", "/api/a%2f../x;y")
	f.Add("\xb0", "/a", "/b", "/")
	f.Add("[::1]", "/", "/**/*/**", `//a/..\b`)
	f.Fuzz(func(t *testing.T, host, one, two, path string) {
		if h, err := routing.ParseHost(host); err != nil {
			mustPoint(t, err, host)
		} else if again, err := routing.ParseHost(h.String()); err != nil || again != h {
			t.Fatalf("host %q is written %q, which is %v, error %v", host, h, again, err)
		}
		a, err := routing.ParsePath(one)
		if err != nil {
			mustPoint(t, err, one)
			return
		}
		if again, err := routing.ParsePath(a.String()); err != nil || again.String() != a.String() {
			t.Fatalf("path %q is written %q, which is %v, error %v", one, a, again, err)
		}
		b, err := routing.ParsePath(two)
		if err != nil {
			return
		}
		routes := []routing.Route{{Path: a}, {Path: b}}
		shadowed := len(routing.UnreachableRoutes(routes)) > 0
		slices.Reverse(routes)
		matched := routing.NewTable(routes, nil).AppendRoutes(nil, &routing.Request{Path: path, Host: host})
		if covering := firstRoute(routing.NewTable(routes[1:], nil), &routing.Request{Path: path, Host: host}); shadowed &&
			slices.Contains(matched, 0) && covering == none {
			t.Fatalf("%s covers %s, but does not match %q", a, b, path)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		table := routing.NewTable(manyRoutes(b, n), nil)
		for name, path := range map[string]string{"plain": "/api/v7777/a/items/b", "written otherwise": "/API/v7777/a/./items/%62"} {
			b.Run(fmt.Sprintf("%d routes, %s", n, name), func(b *testing.B) {
				r := &routing.Request{Method: "POST", Host: "shop.example7.com", Path: path}
				for b.Loop() {
					table.AppendRoutes(make([]int, 0, 2), r)
				}
			})
		}
	}
}

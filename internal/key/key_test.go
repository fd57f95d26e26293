package key_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/key"
)

// request is a request with four texts.
type request struct {
	addr  netip.Addr
	texts [4]string
}

func (r *request) Addr() netip.Addr { return r.addr }

// text is a key part that returns one of the texts.
type text int

func (i text) Read(r *request) string { return r.texts[i] }

type part = key.Part[*request]

func header(i int) part {
	return key.Text(key.FieldName("header", string(rune('A'+i))), key.Reader[*request](text(i)))
}

func function(i int) part { return key.Func[*request](func() {}, text(i)) }
func address() part       { return key.Address[*request](64) }

func ready(t testing.TB, p part) *key.Key[*request] {
	t.Helper()
	k, err := p.Key(address())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestText(t *testing.T) {
	t.Parallel()
	v4 := netip.MustParseAddr("203.0.113.9")
	join, first := key.Join[*request], key.First[*request]
	for _, c := range []struct {
		key        part
		expression string
		r          request
		want       string
	}{
		{part{}, "ip", request{addr: v4}, "203.0.113.9"},
		{part{}, "ip", request{}, "unknown"},
		{key.Address[*request](0), "ip", request{addr: netip.MustParseAddr("2001:db8::1")}, "2001:db8::/64"},
		{key.Address[*request](48), "ip/48", request{addr: netip.MustParseAddr("2001:db8::1")}, "2001:db8::/48"},
		{header(0), "header:a", request{texts: [4]string{"acme"}}, "acme"},
		{header(0), "header:a", request{texts: [4]string{strings.Repeat("x", 1024)}}, strings.Repeat("x", 1024)},
		{header(0), "header:a", request{texts: [4]string{strings.Repeat("x", 1025)}}, "sha256=7c49ea9ecc6f38ded4b4c3adc8937b12cde58bc3c2e5f5e9e5fb3d9d4b6be5df"},
		{key.Global[*request](), "same", request{}, ""},
		{join(part{}, header(0)), "ip+header:a", request{addr: v4, texts: [4]string{"a+b"}}, `203.0.113.9+a\+b`},
		{join(join(header(0), header(1)), header(2)), "(header:a+header:b)+header:c", request{texts: [4]string{"1", "2", "3"}}, `1\+2+3`},
		{join(header(0)), "header:a", request{texts: [4]string{"+"}}, "+"},
		{first(header(0), part{}), "header:a, ip", request{addr: v4, texts: [4]string{"acme"}}, "acme"},
		{first(header(0), part{}), "header:a, ip", request{addr: v4, texts: [4]string{"198.51.100.1"}}, "header:a=198.51.100.1"},
		{first(header(0), part{}), "header:a, ip", request{addr: v4, texts: [4]string{"2001:db8::/64"}}, "header:a=2001:db8::/64"},
		{first(header(0), part{}), "header:a, ip", request{addr: v4, texts: [4]string{"unknown"}}, "header:a=unknown"},
		{first(header(0), part{}), "header:a, ip", request{addr: v4, texts: [4]string{"ip=1"}}, "header:a=ip=1"},
		{first(header(0), part{}), "header:a, ip", request{addr: v4, texts: [4]string{"header:a=1"}}, "header:a=header:a=1"},
		{first(header(0), part{}), "header:a, ip", request{addr: v4}, "203.0.113.9"},
		{first(header(0), part{}), "header:a, ip", request{}, "unknown"},
		{first(header(0), header(1)), "header:a, header:b", request{texts: [4]string{"", "b"}}, "header:b=b"},
		{first(header(0), header(1)), "header:a, header:b", request{}, "header:b="},
		{first(key.Address[*request](48), part{}), "ip/48, ip", request{}, "unknown"},
		{first(function(0), function(1)), "func, func:2", request{texts: [4]string{"", "b"}}, "func:2=b"},
		{first(function(0), function(1)), "func, func:2", request{texts: [4]string{"func:2=b"}}, "func=func:2=b"},
		{first(join(header(0), header(1)), part{}), "header:a+header:b, ip", request{addr: v4, texts: [4]string{"a", "b"}}, "a+b"},
		{first(join(header(0), header(1)), part{}), "header:a+header:b, ip", request{addr: v4, texts: [4]string{"a"}}, "203.0.113.9"},
		{first(header(2), first(header(0), header(1))), "header:c, (header:a, header:b)", request{texts: [4]string{"", "1"}}, "header:a, header:b=header:b=1"},
		{join(first(header(0), part{}), header(1)), "(header:a, ip)+header:b", request{addr: v4, texts: [4]string{"", "1"}}, "203.0.113.9+1"},
		{first(key.Global[*request](), part{}), "same, ip", request{addr: v4}, ""},
	} {
		k := ready(t, c.key)
		if got := k.String(); got != c.expression {
			t.Errorf("%s is written %s", c.expression, got)
		}
		got := k.Text(&c.r)
		if got != c.want && !(strings.HasPrefix(c.want, "sha256=") && strings.HasPrefix(got, "sha256=") && len(got) == 71) {
			t.Errorf("%s of %v: got %q want %q", c.expression, c.r, got, c.want)
		}
		if appended := string(k.Append([]byte("k"), &c.r)); appended != "k"+got {
			t.Errorf("%s of %v: appended %q want %q", c.expression, c.r, appended, "k"+got)
		}
	}
}

func TestFieldName(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"X-Api-Key": "header:x-api-key", "x-api-key": "header:x-api-key", "A b": "header:A b", "a b": "header:a b",
		`a=b+c,(d)\`: `header:a\=b\+c\,\(d\)\\`,
	} {
		if got := key.FieldName("header", field); got != want {
			t.Errorf("%q: got %q want %q", field, got, want)
		}
	}
}

func TestInvalidKeys(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]part{
		"no name":                   key.Join(address(), key.First(key.Wrong[*request]("no name"))),
		"Join and First need parts": key.First(address(), key.Join[*request]()),
	} {
		if _, err := p.Key(address()); err == nil || err.Error() != want {
			t.Errorf("got error %v want %s", err, want)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	user := function(0)
	for _, c := range []struct {
		a, b part
		want bool
	}{
		{part{}, address(), true},
		{address(), key.Address[*request](48), false},
		{header(0), header(0), true},
		{header(0), header(1), false},
		{key.Join(header(0), user), key.Join(header(0), user), true},
		{function(0), function(0), false},
		{key.Join(header(0), header(1)), key.First(header(0), header(1)), false},
		{key.Join(header(0)), header(0), true},
	} {
		if a, b := ready(t, c.a), ready(t, c.b); a.Equal(b) != c.want || b.Equal(a) != c.want {
			t.Errorf("%s and %s: got %v want %v", a, b, !c.want, c.want)
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	if build, ok := debug.ReadBuildInfo(); ok && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return // the race detector allocates
	}
	r := &request{addr: netip.MustParseAddr("2001:db8::1"), texts: [4]string{"a+b", "", "c"}}
	room := make([]byte, 0, 256)
	for _, p := range []part{
		{},
		header(0), key.First(header(1), part{}), key.First(header(1), key.Join(header(0), header(2))),
		key.Join(part{}, key.First(header(1), header(2)), function(0)),
	} {
		k := ready(t, p)
		if n := testing.AllocsPerRun(100, func() { _ = k.Append(room, r) }); n > 0 {
			t.Errorf("%s: got %v allocations want none", k, n)
		}
		want := 1.0
		if k.Single() && k.String() != "ip" {
			want = 0
		}
		if n := testing.AllocsPerRun(100, func() { _ = k.Text(r) }); n > want {
			t.Errorf("%s as a string: got %v allocations want %v", k, n, want)
		}
	}
}

// randomPart returns a random expression and a function that computes its expected
// result independently: the chosen alternatives and the texts of the parts, in a
// notation that is unambiguous without escaping.
func randomPart(rng *rand.Rand, depth int) (part, func(*request) (model string, has bool)) {
	i := rng.IntN(4)
	quoted := func(r *request) (string, bool) { return fmt.Sprintf("%q", r.texts[i]), r.texts[i] != "" }
	switch n := rng.IntN(10); {
	case n < 2 || depth == 0 && n < 6:
		return header(i), quoted
	case n < 3 || depth == 0 && n < 7:
		return function(i), quoted
	case n < 4 || depth == 0 && n < 9:
		bits := []int{64, 48, 1, 128}[rng.IntN(4)]
		return key.Address[*request](bits), func(r *request) (string, bool) {
			if r.addr.Is4() {
				return r.addr.String(), true
			}
			network, _ := r.addr.Prefix(bits)
			return network.String(), r.addr.IsValid()
		}
	case n < 5 || depth == 0:
		return key.Global[*request](), func(*request) (string, bool) { return "", true }
	default:
		return randomParts(rng, depth, n < 7)
	}
}

func randomParts(rng *rand.Rand, depth int, joined bool) (part, func(*request) (model string, has bool)) {
	parts := make([]part, 1+rng.IntN(3))
	models := make([]func(*request) (string, bool), len(parts))
	for i := range parts {
		parts[i], models[i] = randomPart(rng, depth-1)
	}
	if joined {
		return key.Join(parts...), func(r *request) (string, bool) {
			all, has := make([]string, len(models)), true
			for i, model := range models {
				text, ok := model(r)
				all[i], has = text, has && ok
			}
			return fmt.Sprintf("%q", all), has
		}
	}
	return key.First(parts...), func(r *request) (string, bool) {
		for i, model := range models {
			if text, ok := model(r); ok {
				return fmt.Sprintf("%d:%s", i, text), true
			}
		}
		text, _ := models[len(models)-1](r)
		return fmt.Sprintf("%d:%s", len(models)-1, text), false
	}
}

// checkKeysAreUnique generates keys of many requests under a random expression. It
// checks that two keys are equal if and only if the model's parts are equal. Requests
// contain the keys of earlier requests, like an attack.
func checkKeysAreUnique(t *testing.T, seed uint64, texts []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	p, model := randomPart(rng, 3)
	k := ready(t, p)
	texts = append(texts, "", "", "", "a", "+", `\`, `a\`, "=", "203.0.113.9", "2001:db8::/64", "unknown", "sha256=", k.String()+"=")
	for _, name := range k.Parts() {
		texts = append(texts, name, name+"=", name+"=a", name+"=203.0.113.9", name+"=unknown")
	}
	addresses := []netip.Addr{
		{}, netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"),
	}
	keys, models := map[string]string{}, map[string]string{}
	for range 200 {
		r := &request{addr: addresses[rng.IntN(len(addresses))]}
		for i := range r.texts {
			r.texts[i] = texts[rng.IntN(len(texts))]
		}
		text := k.Text(r)
		if len(text) > key.MaxBytes {
			t.Fatalf("seed %d, %s of %v: a key of %d bytes", seed, k, r, len(text))
		}
		parts, _ := model(r)
		if before, ok := keys[text]; ok && before != parts {
			t.Fatalf("seed %d, %s: the parts %s and %s share the key %q", seed, k, before, parts, text)
		}
		if before, ok := models[parts]; ok && before != text {
			t.Fatalf("seed %d, %s: the parts %s have the keys %q and %q", seed, k, parts, before, text)
		}
		keys[text], models[parts] = parts, text
		if len(texts) < 300 {
			texts = append(texts, text)
		}
	}
}

// T11: no two requests that differ in a part share a key, for any key expression.
func TestKeysAreUnique(t *testing.T) {
	t.Parallel()
	rounds := 1_000
	if testing.Short() {
		rounds = 200
	}
	for range rounds {
		checkKeysAreUnique(t, rand.Uint64(), nil)
	}
}

func FuzzKeysAreUnique(f *testing.F) {
	f.Add(uint64(1), "a", "header:a=", "1.2.3.4")
	f.Add(uint64(2), `\+`, "func:2=", "ip/48=unknown")
	f.Fuzz(func(t *testing.T, seed uint64, a, b, c string) { checkKeysAreUnique(t, seed, []string{a, b, c}) })
}

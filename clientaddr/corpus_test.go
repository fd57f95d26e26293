package clientaddr

import (
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
)

// corpus reads the cases of a file. Each line has the given number of columns.
func corpus(t *testing.T, file string, columns int) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases [][]string
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' || strings.HasPrefix(line, "==") {
			continue
		}
		row := strings.Split(line, " | ")
		if len(row) != columns {
			t.Fatalf("%s: %d columns, want %d: %s", file, len(row), columns, line)
		}
		if key := strings.Join(row[1:], "|"); seen[row[0]+key] {
			t.Fatalf("%s: twice: %s", file, line)
		} else {
			seen[row[0]+key] = true
		}
		cases = append(cases, row)
	}
	return cases
}

var bytesInCorpus = strings.NewReplacer("<TAB>", "\t", "<NUL>", "\x00", "<NBSP>", "\u00a0", "(empty)", "")

func optionsOf(t *testing.T, text string) *Options {
	t.Helper()
	o := &Options{Warn: func(string) {}}
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "-":
		case "proxies":
			for _, network := range strings.Split(value, ",") {
				o.TrustedProxies = append(o.TrustedProxies, mustParsePrefix(t, network))
			}
		case "hops":
			hops, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			o.TrustedHops = hops
		case "header":
			o.Header = value
		case "unix":
			o.TrustUnix = true
		default:
			t.Fatalf("unknown option %q", word)
		}
	}
	return o
}

func mustParsePrefix(t *testing.T, text string) netip.Prefix {
	t.Helper()
	p, err := netip.ParsePrefix(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func headerOf(t *testing.T, text string) http.Header {
	t.Helper()
	header := http.Header{}
	if text == "-" {
		return header
	}
	for _, line := range strings.Split(text, "⏎") {
		name, value, found := strings.Cut(strings.TrimLeft(line, " "), ":")
		if !found {
			t.Fatalf("not a header line: %q", line)
		}
		header.Add(name, strings.TrimPrefix(value, " "))
	}
	return header
}

func addrOf(t *testing.T, text string) netip.Addr {
	t.Helper()
	if text == "none" {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustNew(t testing.TB, o *Options) *Resolver {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestClientCorpus(t *testing.T) {
	t.Parallel()
	cases := corpus(t, "testdata/clients.txt", 5)
	if len(cases) < 200 {
		t.Errorf("the corpus has %d cases, want at least 200", len(cases))
	}
	for _, c := range cases {
		r := mustNew(t, optionsOf(t, c[1]))
		peer, header := bytesInCorpus.Replace(c[2]), headerOf(t, bytesInCorpus.Replace(c[3]))
		want := addrOf(t, c[4])
		if got := r.Addr(&http.Request{RemoteAddr: peer, Header: header}); got != want {
			t.Errorf("%s: options %s, peer %s, %s: got %s, want %s", c[0], c[1], c[2], c[3], got, want)
		}
	}
}

func TestGroupCorpus(t *testing.T) {
	t.Parallel()
	for _, c := range corpus(t, "testdata/groups.txt", 4) {
		bits, err := strconv.Atoi(c[2])
		if err != nil {
			t.Fatal(err)
		}
		group := Group(addrOf(t, c[1]), bits)
		if got := string(AppendKey([]byte("ip:"), group)); got != "ip:"+c[3] {
			t.Errorf("%s: %s by %d bits: got %s, want ip:%s", c[0], c[1], bits, got, c[3])
		}
	}
}

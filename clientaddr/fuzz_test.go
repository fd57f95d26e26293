package clientaddr

import (
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// fuzzResolvers returns a resolver for each kind of options.
func fuzzResolvers(t testing.TB) map[string]*Resolver {
	quiet := func(string) {}
	return map[string]*Resolver{
		"nobody":    mustNew(t, &Options{Warn: quiet}),
		"list":      mustNew(t, &Options{TrustedProxies: modelsProxies}),
		"Forwarded": mustNew(t, &Options{TrustedProxies: modelsProxies, Header: forwarded}),
		"named":     mustNew(t, &Options{TrustedProxies: modelsProxies, Header: "X-Real-IP"}),
		"hops":      mustNew(t, &Options{TrustedHops: 1}),
		"hops of Forwarded": mustNew(t, &Options{
			TrustedHops: 1, Header: forwarded,
		}),
	}
}

func FuzzAddr(f *testing.F) {
	text, err := os.ReadFile("testdata/clients.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if row := strings.Split(line, " | "); len(row) == 5 {
			var values []string
			for _, l := range strings.Split(row[3], "⏎") {
				_, value, _ := strings.Cut(l, ":")
				values = append(values, strings.TrimSpace(value))
			}
			f.Add(row[2], strings.Join(values, "\n"), `for=6.6.6.6;by="`)
		}
	}
	resolvers := fuzzResolvers(f)
	f.Fuzz(func(t *testing.T, peer, field, invented string) {
		values := strings.Split(field, "\n")
		for name, r := range resolvers {
			requireNormalized(t, r, peer, values)
			untrustedHeaderIsIgnored(t, r, peer, values)
			if name != "nobody" && name != "named" {
				trustedEntryWins(t, r, values)
				leftEntriesAreIgnored(t, r, values, invented)
			}
		}
		Group(addrAt(peer), len(field))
	})
}

func addrAt(peer string) netip.Addr {
	a, _ := parseNode(peer)
	return a
}

// requireNormalized checks that the result has no zone, is not IPv4-mapped, and that
// AddrOf does not modify its arguments.
func requireNormalized(t *testing.T, r *Resolver, peer string, values []string) {
	before := slices.Clone(values)
	got := r.AddrOf(peer, http.Header{r.header: values})
	if got.Zone() != "" || got.Is4In6() {
		t.Errorf("peer %q, %q: got %s", peer, values, got)
	}
	if again := r.AddrOf(peer, http.Header{r.header: values}); again != got || !slices.Equal(values, before) {
		t.Errorf("peer %q, %q: got %s, then %s", peer, before, got, again)
	}
}

// untrustedHeaderIsIgnored checks that a header of an untrusted peer never changes the
// result.
func untrustedHeaderIsIgnored(t *testing.T, r *Resolver, peer string, values []string) {
	if r.hops > 0 || isModelProxy(addrAt(peer)) && len(r.trusted) > 0 {
		return
	}
	if got, want := r.AddrOf(peer, http.Header{r.header: values}), r.AddrOf(peer, nil); got != want {
		t.Errorf("peer %q, %q: got %s, want %s", peer, values, got, want)
	}
}

// trustedEntryWins checks that the entry that a trusted proxy appends is the result,
// regardless of what the client sends.
func trustedEntryWins(t *testing.T, r *Resolver, values []string) {
	appended, last := "2001:db8::77", len(values)-1
	if r.header == forwarded {
		appended = `for="[2001:db8::77]:4711";proto=https`
	}
	joined := slices.Clone(values)
	joined[last] += ", " + appended
	for _, v := range [][]string{joined, append(slices.Clone(values), appended)} {
		if got := r.AddrOf(proxy, http.Header{r.header: v}); got.String() != "2001:db8::77" {
			t.Errorf("%s %q: got %s, want 2001:db8::77", r.header, v, got)
		}
	}
}

// leftEntriesAreIgnored checks that entries to the left of the client's address do not
// change the result.
func leftEntriesAreIgnored(t *testing.T, r *Resolver, values []string, invented string) {
	want := r.AddrOf(proxy, http.Header{r.header: values})
	if isModelProxy(want) {
		return
	}
	joined := slices.Clone(values)
	joined[0] = invented + "," + joined[0]
	for _, v := range [][]string{joined, append([]string{invented}, values...)} {
		if got := r.AddrOf(proxy, http.Header{r.header: v}); got != want {
			t.Errorf("%s %q: got %s, want %s as without the first", r.header, v, got, want)
		}
	}
}

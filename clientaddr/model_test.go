package clientaddr

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// entry is one element of a header field, with its meaning.
type entry struct {
	text string // as in X-Forwarded-For
	pair string // as in Forwarded
	addr netip.Addr
	good bool
}

// isModelProxy reports whether a is an address of the model's proxies. It uses the
// standard library's older package net.
func isModelProxy(a netip.Addr) bool {
	for _, network := range []string{"10.0.0.0/8", "fd00::/8", "192.0.2.64/26"} {
		if _, n, _ := net.ParseCIDR(network); n.Contains(net.IP(a.AsSlice())) {
			return true
		}
	}
	return false
}

var modelsProxies = []netip.Prefix{
	tens, netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.64/26"),
}

// modelAddr returns the client's address, computed in another way: the unbroken chain of
// entries by trusted proxies ends with the address of the client of the last of them, if
// that address can be parsed.
func modelAddr(peer netip.Addr, chain []entry) netip.Addr {
	from := len(chain)
	for from > 0 && chain[from-1].good && isModelProxy(chain[from-1].addr) {
		from--
	}
	switch {
	case from > 0 && chain[from-1].good:
		return chain[from-1].addr
	case from < len(chain):
		return chain[from].addr
	}
	return peer
}

func modelAddrOfHops(peer netip.Addr, chain []entry, hops int) netip.Addr {
	if len(chain) < hops || !chain[len(chain)-hops].good {
		return peer
	}
	return chain[len(chain)-hops].addr
}

func randomAddr(rng *rand.Rand) netip.Addr {
	pick := []string{
		fmt.Sprintf("10.0.0.%d", rng.IntN(9)), fmt.Sprintf("fd00::%x", rng.IntN(9)), fmt.Sprintf("192.0.2.%d", 60+rng.IntN(8)),
		fmt.Sprintf("203.0.113.%d", rng.IntN(9)), fmt.Sprintf("2001:db8::%x", rng.IntN(9)), fmt.Sprintf("64:ff9b::10.0.0.%d", rng.IntN(9)),
	}
	return netip.MustParseAddr(pick[rng.IntN(len(pick))])
}

// randomSpelling returns one of the accepted spellings of an address.
func randomSpelling(rng *rand.Rand, a netip.Addr) string {
	if a.Is4() {
		mapped := netip.AddrFrom16(a.As16())
		return []string{
			a.String(), fmt.Sprintf("%s:%d", a, rng.IntN(65536)), mapped.String(), mapped.StringExpanded(),
			fmt.Sprintf("[%s]:%d", mapped, rng.IntN(65536)),
		}[rng.IntN(5)]
	}
	return []string{
		a.String(), a.StringExpanded(), strings.ToUpper(a.String()), "[" + a.String() + "]",
		fmt.Sprintf("[%s]:%d", a, rng.IntN(65536)), a.String() + "%eth0",
	}[rng.IntN(6)]
}

var notAddresses = []string{
	"", "unknown", "_hidden", "-", "unix:", "10.0.0.256", "10.0.0", "010.0.0.1", "[10.0.0.1]", "fd00::1::2", "10.0.0.1:", "10.0.0.1:x",
	"localhost", "10.0.0.1/8", "[fd00::1",
}

func randomEntry(rng *rand.Rand) entry {
	if rng.IntN(8) == 0 {
		text := notAddresses[rng.IntN(len(notAddresses))]
		return entry{text: text, pair: `for="` + text + `"`}
	}
	a := randomAddr(rng)
	text := randomSpelling(rng, a)
	pair := []string{
		`for="` + text + `"`, `For="` + text + `";proto=https`, `by="a, for=6.6.6.6";for="` + text + `"`,
		`for="` + text + `";host="\", for=6.6.6.6\\"`,
	}[rng.IntN(4)]
	return entry{text: text, pair: pair, addr: a, good: true}
}

// lines distributes the elements over one to three header lines.
func lines(rng *rand.Rand, chain []entry, text func(entry) string) []string {
	var all []string
	for i, e := range chain {
		if i == 0 || rng.IntN(4) == 0 {
			all = append(all, text(e))
			continue
		}
		all[len(all)-1] += []string{",", ", ", " ,\t"}[rng.IntN(3)] + text(e)
	}
	return all
}

func TestRandomChains(t *testing.T) {
	t.Parallel()
	byName := map[string]*Resolver{}
	hops := map[string][4]*Resolver{}
	for _, header := range []string{forwardedFor, forwarded} {
		byName[header] = mustNew(t, &Options{TrustedProxies: modelsProxies, Header: header})
		of := hops[header]
		for n := 1; n < len(of); n++ {
			of[n] = mustNew(t, &Options{TrustedHops: n, Header: header})
		}
		hops[header] = of
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range 50_000 {
		chain := make([]entry, rng.IntN(8))
		for i := range chain {
			chain[i] = randomEntry(rng)
		}
		header := http.Header{
			forwardedFor: lines(rng, chain, func(e entry) string { return e.text }),
			forwarded:    lines(rng, chain, func(e entry) string { return e.pair }),
		}
		n := 1 + rng.IntN(3)
		for name, r := range byName {
			if got, want := r.AddrOf(proxy, header), modelAddr(proxyIP, chain); got != want {
				t.Fatalf("seed %d, chain %d: %s %q: got %s, want %s", seed, i, name, header[name], got, want)
			}
			if got, want := hops[name][n].AddrOf(proxy, header), modelAddrOfHops(proxyIP, chain, n); got != want {
				t.Fatalf("seed %d, chain %d: %d hops, %s %q: got %s, want %s", seed, i, n, name, header[name], got, want)
			}
		}
	}
}

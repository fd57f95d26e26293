package clientaddr_test

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/headgate/headgate/clientaddr"
)

func ExampleResolver_Addr() {
	clients, err := clientaddr.New(&clientaddr.Options{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		panic(err)
	}
	header := http.Header{}
	header.Add("X-Forwarded-For", "6.6.6.6, 203.0.113.9") // the first address is forged by the client
	header.Add("X-Forwarded-For", "10.0.0.2")             // appended by a proxy

	fmt.Println(clients.AddrOf("10.0.0.1:52100", header))
	fmt.Println(clients.AddrOf("198.51.100.7:52100", header)) // not from a trusted proxy
	// Output:
	// 203.0.113.9
	// 198.51.100.7
}

func ExampleGroup() {
	for _, text := range []string{"203.0.113.9", "::ffff:203.0.113.9", "64:ff9b::203.0.113.9", "2001:db8:1:2:3:4:5:6"} {
		a := netip.MustParseAddr(text)
		fmt.Println(clientaddr.Group(a, 64), clientaddr.Group(a, 48))
	}
	// Output:
	// 203.0.113.9/32 203.0.113.9/32
	// 203.0.113.9/32 203.0.113.9/32
	// 203.0.113.9/32 203.0.113.9/32
	// 2001:db8:1:2::/64 2001:db8:1::/48
}

func ExampleAppendKey() {
	a := netip.MustParseAddr("2001:db8:1:2:3:4:5:6")
	fmt.Printf("%s\n", clientaddr.AppendKey([]byte("login:"), clientaddr.Group(a, 64)))
	// Output: login:2001:db8:1:2::/64
}

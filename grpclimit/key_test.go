package grpclimit_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

// from returns the context of a call from a peer, with metadata.
func from(addr string, md ...string) context.Context {
	p := &peer.Peer{}
	switch {
	case strings.HasPrefix(addr, "unix:"):
		p.Addr = &net.UnixAddr{Net: "unix", Name: addr[len("unix:"):]}
	case addr != "":
		p.Addr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))
	}
	return metadata.NewIncomingContext(peer.NewContext(context.Background(), p), metadata.Pairs(md...))
}

var (
	call    = grpclimit.Call{Method: "/shop.Cart/Add"}
	proxies = &clientaddr.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	const forwarded = "203.0.113.9"
	for _, c := range []struct {
		name  string
		ctx   context.Context
		trust *clientaddr.Options
		want  string
	}{
		{"IPv4", from("198.51.100.7:4711"), nil, "198.51.100.7"},
		{"IPv6", from("[2001:db8:1:2:3:4:5:6]:4711"), nil, "2001:db8:1:2::/64"},
		{"a zone", from("[fe80::1%eth0]:4711"), nil, "fe80::/64"},
		{"mapped", from("[::ffff:198.51.100.7]:4711"), nil, "198.51.100.7"},
		{"translated", from("[64:ff9b::198.51.100.7]:4711"), nil, "198.51.100.7"},
		{"a Unix socket", from("unix:/run/socket"), nil, "unknown"},
		{"an unnamed Unix socket", from("unix:@"), nil, "unknown"},
		{"a Unix socket whose name is an address", from("unix:198.51.100.7:4711"), nil, "unknown"},
		{"no address", from(""), nil, "unknown"},
		{"no peer", context.Background(), nil, "unknown"},
		{"an untrusted peer with forwarding metadata", from("198.51.100.7:4711", "x-forwarded-for", forwarded, "forwarded", "for="+forwarded), nil, "198.51.100.7"},
		{"a proxy", from("10.0.0.1:4711", "x-forwarded-for", forwarded), proxies, forwarded},
		{"a proxy, mapped", from("[::ffff:10.0.0.1]:4711", "x-forwarded-for", forwarded), proxies, forwarded},
		{"several values", from("10.0.0.1:4711", "x-forwarded-for", "1.1.1.1", "x-forwarded-for", forwarded+", 10.0.0.2"), proxies, forwarded},
		{"a call by the proxy itself", from("10.0.0.1:4711"), proxies, "10.0.0.1"},
		{"an untrusted peer", from("198.51.100.7:4711", "x-forwarded-for", forwarded), proxies, "198.51.100.7"},
		{"one hop", from("198.51.100.7:4711", "x-forwarded-for", "1.1.1.1, "+forwarded), &clientaddr.Options{TrustedHops: 1}, forwarded},
		{"a proxy on a Unix socket", from("unix:/run/socket", "x-forwarded-for", forwarded), &clientaddr.Options{TrustUnix: true}, forwarded},
		{
			"another field", from("10.0.0.1:4711", "x-forwarded-for", "1.1.1.1", "x-real-ip", forwarded),
			&clientaddr.Options{TrustedProxies: proxies.TrustedProxies, Header: "X-Real-IP"}, forwarded,
		},
	} {
		if got := grpclimit.ServerKey(c.ctx, grpclimit.Key{}, call, c.trust); got != c.want {
			t.Errorf("%s: got %q want %q", c.name, got, c.want)
		}
	}
}

// The warning about an untrusted proxy is sent once.
func TestWarnsAboutUntrustedProxy(t *testing.T) {
	t.Parallel()
	warned := 0
	trust := &clientaddr.Options{Warn: func(string) { warned++ }}
	l := newServer(t, &grpclimit.Options{Client: trust}, grpclimit.Charge{Policy: policy("calls", "9/1h")})
	for range 3 {
		interceptor(from("10.0.0.1:4711", "x-forwarded-for", "203.0.113.9"), l)()
	}
	if warned != 1 {
		t.Errorf("warned %d times want once", warned)
	}
}

func TestServerKeys(t *testing.T) {
	t.Parallel()
	ctx := from("198.51.100.7:4711", "user", "ann", "user", "ben", "empty", "")
	user, address, missing := grpclimit.Metadata("User"), grpclimit.Address(), grpclimit.Metadata("x")
	found := grpclimit.Func(func(context.Context) (string, bool) { return "found", true })
	noUser := grpclimit.Func(func(context.Context) (string, bool) { return "ann", false })
	for _, c := range []struct {
		name string
		key  grpclimit.Key
		want string
	}{
		{"method", grpclimit.Method(), "/shop.Cart/Add"},
		{"service", grpclimit.Service(), "shop.Cart"},
		{"metadata", user, "ann"},
		{"missing", missing, ""},
		{"func", found, "found"},
		{"func without a result", noUser, ""},
		{"global", grpclimit.Global(), ""},
		{"join", grpclimit.Join(user, grpclimit.Service(), missing), "ann+shop.Cart+"},
		{"first", grpclimit.First(user, address), "ann"},
		{"second", grpclimit.First(missing, address), "198.51.100.7"},
		{"first that is not empty", grpclimit.First(grpclimit.Metadata("empty"), noUser, grpclimit.Join(missing, noUser), grpclimit.Key{}), "198.51.100.7"},
		{"all alternatives missing", grpclimit.First(missing, noUser), "func="},
		{"a join with a missing part", grpclimit.First(grpclimit.Join(user, missing), address), "198.51.100.7"},
		{"the second function", grpclimit.First(noUser, found), "func:2=found"},
		{"a block", grpclimit.AddressBlock(0), "198.51.100.7"},
	} {
		if got := grpclimit.ServerKey(ctx, c.key, call, nil); got != c.want {
			t.Errorf("%s: got %q want %q", c.name, got, c.want)
		}
	}
	if got := grpclimit.ServerKey(from("[2001:db8:1:2::3]:1"), grpclimit.AddressBlock(48), call, nil); got != "2001:db8:1::/48" {
		t.Errorf("an IPv6 block: got %q want its /48", got)
	}
	long := from("", "user", strings.Repeat("x", 1<<20))
	if got := grpclimit.ServerKey(long, user, call, nil); len(got) != len("sha256=")+64 {
		t.Errorf("1 MiB: got %d bytes want a hash", len(got))
	}
}

func TestClientKeys(t *testing.T) {
	t.Parallel()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "User", "ann")
	call := grpclimit.Call{Method: "/shop.Cart/Add", Target: "dns:///shop"}
	for key, want := range map[grpclimit.Key]string{
		{}:                         "dns:///shop",
		grpclimit.Target():         "dns:///shop",
		grpclimit.Metadata("user"): "ann",
	} {
		if got := grpclimit.ClientKey(ctx, key, call); got != want {
			t.Errorf("got %q want %q", got, want)
		}
	}
	if got := grpclimit.ClientKey(context.Background(), grpclimit.Metadata("user"), call); got != "" {
		t.Errorf("without metadata: got %q want none", got)
	}
}

// Calls on real sockets have the correct client address.
func TestClientAddressOfSockets(t *testing.T) {
	t.Parallel()
	// the path of a socket may have about 100 bytes
	dir, err := os.MkdirTemp("", "hg")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	local := &clientaddr.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, c := range []struct {
		network, address string
		opts             *clientaddr.Options
		second           codes.Code // of a call with another X-Forwarded-For
	}{
		{"tcp", "127.0.0.1:0", nil, codes.ResourceExhausted},
		{"tcp", "127.0.0.1:0", local, codes.OK},
		{"tcp", "[::]:0", local, codes.OK}, // IPv4 addresses are mapped to IPv6
		{"unix", filepath.Join(dir, "a"), nil, codes.ResourceExhausted},
		{"unix", filepath.Join(dir, "b"), &clientaddr.Options{TrustUnix: true}, codes.OK},
	} {
		opts := &grpclimit.Options{Client: c.opts}
		if c.opts == nil {
			opts.Client = &clientaddr.Options{Warn: func(string) {}}
		}
		client := listen(t, c.network, c.address, newServer(t, opts, grpclimit.Charge{Policy: policy("calls", "1/1h")}))
		for i, want := range []codes.Code{codes.OK, c.second, codes.ResourceExhausted} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", []string{"203.0.113.1", "203.0.113.2", "203.0.113.1"}[i])
			_, err := client.EmptyCall(ctx, &pb.Empty{})
			mustCode(t, c.network+" "+c.address, err, want)
		}
	}
}

// listen starts a server on a socket and connects to it.
func listen(t *testing.T, network, address string, limit *grpclimit.Server) pb.TestServiceClient {
	t.Helper()
	socket, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limit.Unary))
	pb.RegisterTestServiceServer(server, &service{})
	go server.Serve(socket)
	target := "unix:" + address
	if tcp, ok := socket.Addr().(*net.TCPAddr); ok {
		target = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), tcp.AddrPort().Port()).String()
	}
	conn := connect(t, target)
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
	})
	return pb.NewTestServiceClient(conn)
}

func connect(t *testing.T, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Different values never give the same key, however they are joined.
func FuzzJoin(f *testing.F) {
	f.Add("a+b", "c", "a", "b+c")
	f.Add("", "1.2.3.4", "1.2.3.4", "")
	f.Add("func=", `\`, "", "func:2=")
	text := func(i int) grpclimit.Key {
		return grpclimit.Func(func(ctx context.Context) (string, bool) {
			s := ctx.Value(valuesKey{}).([2]string)[i]
			return s, s != ""
		})
	}
	keys := []grpclimit.Key{
		grpclimit.Join(text(0), text(1)),
		grpclimit.Join(grpclimit.First(text(0), text(1)), grpclimit.Join(text(0)), text(1)),
	}
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		for i, key := range keys {
			x := grpclimit.ServerKey(context.WithValue(context.Background(), valuesKey{}, [2]string{a, b}), key, call, nil)
			y := grpclimit.ServerKey(context.WithValue(context.Background(), valuesKey{}, [2]string{c, d}), key, call, nil)
			if same := a == c && b == d; same != (x == y) {
				t.Errorf("key %d: %q, %q and %q, %q: got %q and %q", i, a, b, c, d, x, y)
			}
		}
	})
}

type valuesKey struct{}

// Metadata that looks like an address never spends the budget of that address: a policy
// without a name has separate state for each kind of key.
func TestMetadataNeverSpendsAddressBudget(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	p := headgate.MustPolicy("1/1h")
	byAddress, err := grpclimit.NewServer(store, nil, grpclimit.Charge{Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	byToken, err := grpclimit.NewServer(store, nil, grpclimit.Charge{Policy: p, Key: grpclimit.Metadata("token")})
	if err != nil {
		t.Fatal(err)
	}
	const victim = "203.0.113.9"
	handler := func(context.Context, any) (any, error) { return nil, nil }
	info := &grpc.UnaryServerInfo{FullMethod: call.Method}
	for _, spent := range []error{nil, status.Error(codes.ResourceExhausted, "")} {
		_, err = byToken.Unary(from("198.51.100.7:1", "token", victim), nil, info, handler)
		mustCode(t, "the value", err, status.Code(spent))
	}
	_, err = byAddress.Unary(from(victim+":1"), nil, info, handler)
	mustCode(t, "the address", err, codes.OK)
}

// Two servers or clients on one store whose policies have no name, and whose keys are two
// functions, would share budgets. The second constructor returns an error.
func TestUnnamedPoliciesWithTwoFunctions(t *testing.T) {
	t.Parallel()
	value := func(i int) func(context.Context) (string, bool) {
		return func(context.Context) (string, bool) { return "", i > 0 }
	}
	user, tenant := value(1), value(2)
	server := func(store headgate.Store, c grpclimit.Charge) error {
		_, err := grpclimit.NewServer(store, nil, c)
		return err
	}
	client := func(store headgate.Store, c grpclimit.Charge) error {
		_, err := grpclimit.NewClient(store, nil, c)
		return err
	}
	unnamed, named := headgate.MustPolicy("2/1m"), headgate.MustNamedPolicy("tenant", "2/1m")
	for i, create := range []func(headgate.Store, grpclimit.Charge) error{server, client} {
		store := memstore.New(nil)
		for j, c := range []struct {
			charge grpclimit.Charge
			want   error
		}{
			{grpclimit.Charge{Policy: unnamed, Key: grpclimit.Func(user)}, nil},
			{grpclimit.Charge{Policy: unnamed, Key: grpclimit.Func(tenant)}, grpclimit.ErrInvalidOptions},
			{grpclimit.Charge{Policy: named, Key: grpclimit.Func(tenant)}, nil},
			{grpclimit.Charge{Policy: unnamed, Key: grpclimit.Func(user)}, nil},
		} {
			if err := create(store, c.charge); !isErr(err, c.want) {
				t.Errorf("constructor %d, charge %d: got error %v want %v", i, j+1, err, c.want)
			}
		}
	}
}

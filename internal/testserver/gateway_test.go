package testserver_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

func TestGateways(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t testing.TB, addr string) *testserver.Gateway{
		"nginx": func(t testing.TB, addr string) *testserver.Gateway {
			return testserver.Nginx(t, addr, "server { listen "+addr+"; location / { return 200 nginx; } }")
		},
		"haproxy": func(t testing.TB, addr string) *testserver.Gateway {
			return testserver.HAProxy(t, addr, "defaults\n mode http\n timeout client 9s\n"+
				"frontend web\n bind "+addr+"\n http-request return status 200 content-type text/plain file body\n",
				map[string]string{"body": "haproxy"})
		},
		"caddy": func(t testing.TB, addr string) *testserver.Gateway {
			return testserver.Caddy(t, addr, "http://"+addr+" {\n\trespond caddy\n}\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, testserver.FreeAddr(t))
			resp, err := http.Get("http://" + g.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); string(body) != name || err != nil {
				t.Errorf("got %q, error %v want %s", body, err, name)
			}
		})
	}
}

package testserver

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// Gateway is a real reverse proxy with a given configuration. All methods may be called
// concurrently.
type Gateway struct {
	process *process
	addr    string
}

// FreeAddr returns an unused address on the loopback interface: 127.0.0.1 and a port.
// No other test gets it before this one ends.
func FreeAddr(t testing.TB) string { return loopback(freePort(t)) }

// Nginx starts nginx with the content of http { }, and waits until it listens on addr.
// It is one process, which ends with the test.
func Nginx(t testing.TB, addr, servers string) *Gateway {
	t.Helper()
	g := &Gateway{newProcess(t, "nginx", "nginx"), addr}
	main := strings.ReplaceAll(nginxMain, "DIR", g.process.dir)
	if os.Geteuid() == 0 {
		main = "user root;\n" + main // its files are in a folder of root
	}
	g.write(t, "servers.conf", servers)
	g.write(t, "nginx.conf", main)
	g.process.args = []string{"-p", g.process.dir, "-c", g.process.path("nginx.conf"), "-e", "stderr"}
	return g.run(t)
}

const nginxMain = `daemon off;
master_process off;
pid DIR/pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path DIR/body;
    proxy_temp_path DIR/proxy;
    fastcgi_temp_path DIR/fastcgi;
    uwsgi_temp_path DIR/uwsgi;
    scgi_temp_path DIR/scgi;
    include DIR/servers.conf;
}
`

// HAProxy starts HAProxy with a configuration and the files that the configuration
// names, and waits until it listens on addr. It ends with the test.
func HAProxy(t testing.TB, addr, config string, files map[string]string) *Gateway {
	t.Helper()
	g := &Gateway{newProcess(t, "haproxy", "haproxy"), addr}
	for name, text := range files {
		g.write(t, name, text)
	}
	g.write(t, "haproxy.cfg", config)
	g.process.args = []string{"-db", "-f", "haproxy.cfg"}
	return g.run(t)
}

// Caddy starts Caddy with a Caddyfile and waits until it listens on addr. It ends with
// the test.
func Caddy(t testing.TB, addr, caddyfile string) *Gateway {
	t.Helper()
	g := &Gateway{newProcess(t, "caddy", "caddy"), addr}
	g.write(t, "Caddyfile", CaddyWithoutAdmin(caddyfile))
	g.process.args = []string{"run", "--config", "Caddyfile", "--adapter", "caddyfile"}
	g.process.env = append(os.Environ(), "HOME="+g.process.dir, "XDG_DATA_HOME="+g.process.dir, "XDG_CONFIG_HOME="+g.process.dir)
	return g.run(t)
}

// CaddyWithoutAdmin returns a Caddyfile with Caddy's admin endpoint disabled, because its
// port is fixed. It adds to the global options if the file has any.
func CaddyWithoutAdmin(caddyfile string) string {
	before, options, has := strings.Cut("\n"+caddyfile, "\n{\n")
	if !has {
		return "{\n\tadmin off\n}\n" + caddyfile
	}
	return before + "\n{\n\tadmin off\n" + options
}

// Traefik starts Traefik, whose binary is given because Debian has no package of it, with
// a static configuration and the files that it names. It waits until Traefik listens on
// addr. It ends with the test.
func Traefik(t testing.TB, addr, binary, static string, files map[string]string) *Gateway {
	t.Helper()
	g := &Gateway{newProcess(t, binary, "traefik, which is not in Debian"), addr}
	for name, text := range files {
		g.write(t, name, text)
	}
	g.write(t, "traefik.yaml", static)
	g.process.args = []string{"--configFile=traefik.yaml"}
	return g.run(t)
}

func (g *Gateway) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(g.process.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (g *Gateway) run(t testing.TB) *Gateway {
	t.Helper()
	if err := g.process.run(g.ready); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *Gateway) ready() error {
	conn, err := net.DialTimeout("tcp", g.addr, time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Output returns everything that the proxy has written to its standard output and
// standard error. A proxy writes the log line of a request after the response.
func (g *Gateway) Output() string {
	text, _ := os.ReadFile(g.process.path("output"))
	return string(text)
}

// Addr returns the address on which the proxy listens.
func (g *Gateway) Addr() string { return g.addr }

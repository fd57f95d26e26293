package forwardauth_test

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// checkUndecided checks the response to a request about which Headgate did not decide. It
// is a 503 that can be retried. With a file that fails open, it is the response of the
// application, and the proxy logs the request.
func (c *chain) checkUndecided(t *testing.T, r reply, event string, status int) {
	t.Helper()
	r.expect(t, event, status)
	if status == http.StatusOK {
		c.requireLogged(t, "/plain/"+event)
		return
	}
	r.fields(t, event, map[string]string{
		"Retry-After": "1", "Cache-Control": "no-store", "RateLimit": "", "RateLimit-Policy": "", "X-Application": "",
	})
	if strings.HasPrefix(c.file, "traefik") && r.body == "" {
		return // Traefik has no bodies of its own
	}
	r.fields(t, event, map[string]string{"Content-Type": "application/problem+json"})
	for _, want := range []string{`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"`, `"status":503`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("%s: the body %q does not contain %s", event, r.body, want)
		}
	}
}

// requireLogged waits until the proxy has logged that a request was undecided, and checks
// that it has not logged this for decided requests.
func (c *chain) requireLogged(t *testing.T, path string) {
	t.Helper()
	line := regexp.MustCompile(path + ".*undecided|undecided.*" + path)
	for late := time.Now().Add(30 * time.Second); !line.MatchString(c.proxy.Output()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("the proxy does not log that %s is undecided; its log:\n%s", path, c.proxy.Output())
		}
	}
	if line := regexp.MustCompile(`.*/(login|free).*undecided.*|.*undecided.*/(login|free).*`).FindString(c.proxy.Output()); line != "" {
		t.Errorf("the proxy logs that a decided request is undecided: %s", line)
	}
}

// The application gets the Host of the client, its address and the protocol.
func TestProxiesDescribeClientToApplication(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		c.client(t, "127.0.0.2").do("GET", "/free", "", "X-Forwarded-For", "6.6.6.6").expect(t, "a request", want["allowed"])
		got := c.last.Load()
		if got.Host != "shop.test" {
			t.Errorf("Host: got %s want shop.test", got.Host)
		}
		address := []string{"127.0.0.2"}
		if strings.HasPrefix(file, "nginx") { // appends to the client's field
			address = []string{"6.6.6.6, 127.0.0.2"}
		}
		if lines := got.Header.Values("X-Forwarded-For"); !slices.Equal(lines, address) {
			t.Errorf("X-Forwarded-For: got %q want %q", lines, address)
		}
		if proto := got.Header.Values("X-Forwarded-Proto"); len(proto) != 1 || proto[0] != "http" {
			t.Errorf("X-Forwarded-Proto: got %q want http", proto)
		}
	})
}

// Errors of the application are forwarded unchanged, also if they have the status of an
// undecided request. An unavailable application is not an undecided request.
func TestProxiesForwardErrorsOfApplication(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		user := c.client(t, "127.0.0.2")
		check := func(event string) {
			t.Helper()
			for _, status := range []int{403, 500, 502, 503, 504} {
				before := c.called.Load()
				r := user.do("GET", "/plain/1", "", "X-Status", strconv.Itoa(status))
				if r.status != status || r.header.Get("X-Application") != "yes" || r.header.Get("Retry-After") != "" || r.body != "GET /plain/1 " {
					t.Errorf("%s, an error %d of the application: got %d, %q %q", event, status, r.status, r.header, r.body)
				}
				if calls := c.called.Load() - before; calls != 1 {
					t.Errorf("%s, an error %d: the application was called %d times, want once", event, status, calls)
				}
			}
		}
		check("up")
		if want["Headgate is unavailable"] == http.StatusOK {
			c.wire.Cut()
			check("down")
			c.wire.Restore()
		}
		c.closeApp()
		if r := user.do("GET", "/plain/1", ""); r.status < 500 || strings.Contains(r.body, "reduced-capacity") {
			t.Errorf("the application is unavailable: got %d %q, want an error of the proxy", r.status, r.body)
		}
	})
}

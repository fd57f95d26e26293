package rlsapi_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(open(t, nil, smallConfig, nil).ServeJSON))
	t.Cleanup(server.Close)
	one := `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`
	for _, c := range []struct {
		name, method, body string
		status             int
		want               string // JSON, or the text; “…” replaces seconds
	}{
		{"allowed", "POST", one, 200, `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"five","requestsPerUnit":5,"unit":"HOUR"},"limitRemaining":4,"durationUntilReset":"…"}]}`},
		{"any method", "PUT", one, 200, `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"five","requestsPerUnit":5,"unit":"HOUR"},"limitRemaining":3,"durationUntilReset":"…"}]}`},
		{"snake case", "POST", `{"domain":"d","hits_addend":2,"descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"five","requestsPerUnit":5,"unit":"HOUR"},"limitRemaining":1,"durationUntilReset":"…"}]}`},
		{"camel case, over", "POST", `{"domain":"d","hitsAddend":2,"descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, 429, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"name":"five","requestsPerUnit":5,"unit":"HOUR"},"durationUntilReset":"…"}]}`},
		{"a descriptor's own hits", "POST", `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"hitsAddend":"0"}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"five","requestsPerUnit":5,"unit":"HOUR"},"limitRemaining":1,"durationUntilReset":"…"}]}`},
		{"negative hits", "POST", `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"isNegativeHits":true,"hitsAddend":"3"}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"five","requestsPerUnit":5,"unit":"HOUR"},"limitRemaining":4,"durationUntilReset":"…"}]}`},
		{"no rule", "POST", `{"domain":"x","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`},
		{"no domain", "POST", `{"descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, 400, "Bad Request\n"},
		{"no descriptors", "POST", `{"domain":"d"}`, 400, "Bad Request\n"},
		{"an unknown field", "POST", `{"domain":"d","foo":1}`, 400, "Bad Request\n"},
		{"no body", "GET", ``, 400, "Bad Request\n"},
		{"no JSON", "POST", `domain`, 400, "Bad Request\n"},
		{"deep", "POST", strings.Repeat(`{"a":`, 11_000), 400, "Bad Request\n"},
		{"twice the same", "POST", `{"domain":"d","domain":"e"}`, 400, "Bad Request\n"},
		{"4 MiB and a byte", "POST", one + strings.Repeat(" ", 4<<20+1-len(one)), 429, `{"overallCode":"OVER_LIMIT"}`},
		{"4 MiB and a byte of no JSON", "POST", strings.Repeat("x", 4<<20+1), 429, `{"overallCode":"OVER_LIMIT"}`},
		{"a request cut short", "POST", one[:len(one)-1], 400, "Bad Request\n"},
		{"two requests", "POST", one + one, 400, "Bad Request\n"},
		{"no text", "POST", "\xff\xfe", 400, "Bad Request\n"},
		{"null", "POST", "null", 400, "Bad Request\n"},
		{"a list", "POST", "[]", 400, "Bad Request\n"},
		{"a negative addend", "POST", `{"domain":"d","hitsAddend":-1,"descriptors":[{}]}`, 400, "Bad Request\n"},
		{"an addend too large", "POST", `{"domain":"d","hitsAddend":4294967296,"descriptors":[{}]}`, 400, "Bad Request\n"},
		{"a unit that is none", "POST", `{"domain":"d","descriptors":[{"limit":{"requestsPerUnit":1,"unit":"UNKNOWN"}}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`},
		{"4 MiB", "POST", `{"domain":"x","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}` + strings.Repeat(" ", 4<<20-68), 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || !sameBody(string(body), c.want) {
			t.Errorf("%s: got %d %s want %d %s", c.name, resp.StatusCode, body, c.status, c.want)
		}
		wantType := "application/json"
		if c.status >= 400 && c.status != 429 {
			wantType = "text/plain; charset=utf-8"
		}
		if got := resp.Header.Get("Content-Type"); got != wantType {
			t.Errorf("%s: the content is %s, want %s", c.name, got, wantType)
		}
	}
}

// TestJSONClientInput: no value that a client chooses leads to an error, and each is
// counted.
func TestJSONClientInput(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(open(t, nil, clientConfig, nil).ServeJSON))
	t.Cleanup(server.Close)
	descriptors := func(text string) string { return `{"domain":"d","descriptors":[` + text + `]}` }
	user := func(value string) string { return descriptors(`{"entries":[{"key":"user","value":"` + value + `"}]}`) }
	counted, denied := []int{200, 200, 429}, []int{429}
	for kind, requests := range map[string]map[string][]int{
		"long":   {user(strings.Repeat("v", 60<<10)): counted, user(strings.Repeat("v", 2<<20)): counted},
		"binary": {user("caf\xe9"): counted, user(`\u0000`): counted, user(strings.Repeat("{", 100_000)): counted},
		"many": {
			descriptors(strings.Repeat(`{},`, 30_000) + `{}`):                    denied,
			descriptors(`{"entries":[` + strings.Repeat(`{},`, 30_000) + `{}]}`): denied,
		},
		"malformed": {
			user(`\ud800`): counted, user(`\udc00x`): counted, user(`\ud800\ud801\udc00`): counted, user(`\ud83d\ude00`): counted,
			user(`\\ud800`): counted,
			descriptors(`{"entries":[{"key":"user","value":"own"}],"limit":{"requestsPerUnit":9,"unit":"UNKNOWN"}}`): counted,
			descriptors(`{"entries":[{"key":"user","value":"hits"}],"hitsAddend":"18446744073709551615"}`):           denied,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			for body, statuses := range requests {
				for i, want := range statuses {
					if got := postJSON(t, server.URL, body); got != want {
						t.Errorf("%.100q: request %d: got %d want %d", body, i+1, got, want)
					}
				}
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /json HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		for i, want := range counted {
			if got := postJSON(t, server.URL, user("another")); got != want {
				t.Errorf("another client, request %d: got %d want %d", i+1, got, want)
			}
		}
	})
}

func postJSON(t *testing.T, url, body string) (status int) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestJSONTruncatedBody: a truncated body is a bad request.
func TestJSONTruncatedBody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(open(t, nil, smallConfig, nil).ServeJSON))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /json HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{\"domain\":"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 400 || string(body) != "Bad Request\n" || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %d %q %v want 400 and Bad Request", resp.StatusCode, body, resp.Header)
	}
}

func sameBody(got, want string) bool {
	var a, b any
	if json.Unmarshal([]byte(want), &b) != nil {
		return got == want
	}
	return json.Unmarshal([]byte(got), &a) == nil && reflect.DeepEqual(withoutSeconds(a), b)
}

// withoutSeconds replaces durations by “…”.
func withoutSeconds(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if v[k] = withoutSeconds(inner); k == "durationUntilReset" {
				v[k] = "…"
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutSeconds(v[i])
		}
	}
	return v
}

func TestJSONStoreUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts   *rlsapi.Options
		status int
		body   string
	}{{nil, 400, "Bad Request\n"}, {&rlsapi.Options{Unavailable503: true}, 503, "Service Unavailable\n"}} {
		store := memstore.New(nil)
		h := open(t, store, smallConfig, c.opts)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeJSON(w, httptest.NewRequest("POST", "/json", strings.NewReader(`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`)))
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("got %d %q want %d %q", w.Code, w.Body, c.status, c.body)
		}
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	h := open(t, nil, "", nil)
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHealth(w, httptest.NewRequest("GET", "/healthcheck", nil))
		return w
	}
	if w := ask(); w.Code != 200 || w.Body.String() != "OK" {
		t.Errorf("before the first configuration: got %d %q want 200 and OK", w.Code, w.Body)
	}
	h.Drain()
	if w := ask(); w.Code != 500 || w.Body.Len() != 0 {
		t.Errorf("on its way out: got %d %q want 500 and nothing", w.Code, w.Body)
	}
}

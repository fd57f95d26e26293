package httplimit_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

func tier(name string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Header.Get("Tier") == name }
}

// items returns the items of a structured field, parsed with an independent parser: for
// each name the value of one parameter.
func items(t *testing.T, header http.Header, field, param string) map[string]int64 {
	t.Helper()
	list, err := httpsfv.UnmarshalList(header.Values(field))
	if err != nil {
		t.Fatalf("%s: %q: %v", field, header.Values(field), err)
	}
	found := map[string]int64{}
	for _, member := range list {
		item := member.(httpsfv.Item)
		value, _ := item.Params.Get(param)
		found[item.Value.(string)], _ = value.(int64)
	}
	return found
}

// The policy is selected per request. A request to which no charge applies is not
// limited.
func TestTiers(t *testing.T) {
	t.Parallel()
	key := httplimit.Header("Key")
	s := listen(t, newMiddleware(t, nil,
		httplimit.Charge{Policy: policy("free", "1/1h"), Key: key, When: tier("free")},
		httplimit.Charge{Policy: policy("pro", "3/1h"), Key: key, When: tier("pro")},
	)(ok))
	for name, want := range map[string]int{"free": 1, "pro": 3, "internal": 10} {
		admitted := 0
		for range 10 {
			got := s.get("/", "Tier", name, "Key", "k")
			if got.status == 200 {
				admitted++
			}
			listed := items(t, got.header, "RateLimit-Policy", "q")
			if _, ok := listed[name]; len(listed) > 1 || ok != (name != "internal") {
				t.Errorf("%s: got the fields of %v want those of its own policy only", name, listed)
			}
		}
		if admitted != want {
			t.Errorf("%s: admitted %d want %d", name, admitted, want)
		}
	}
}

// If one policy denies, no policy is spent. T2, T3.
func TestChargesAreAtomic(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	wide, narrow := policy("wide", "100/1h"), policy("narrow", "2/1h")
	s := listen(t, newMiddlewareOn(t, store, nil,
		httplimit.Charge{Policy: wide, Key: httplimit.Global()},
		httplimit.Charge{Policy: narrow, Key: httplimit.Header("Key")},
	)(ok))
	for i := range 10 {
		got := s.get("/", "Key", "k")
		if want := []int{200, 200, 429}[min(i, 2)]; got.status != want {
			t.Errorf("request %d: got %d want %d", i+1, got.status, want)
		}
		if listed := items(t, got.header, "RateLimit-Policy", "q"); listed["wide"] != 100 || listed["narrow"] != 2 {
			t.Errorf("request %d: got %v want both policies", i+1, listed)
		}
		if got.status == 429 && strings.Contains(got.body, "wide") {
			t.Errorf("request %d: %s: wide did not deny", i+1, got.body)
		}
	}
	if got := remaining(t, store, wide, ""); got != 98 {
		t.Errorf("wide has %d units left want 98: denials spend nothing", got)
	}
}

func TestCostPerRequest(t *testing.T) {
	t.Parallel()
	s := listen(t, newMiddleware(t, nil, httplimit.Charge{Policy: policy("api", "10/1h"), Cost: func(r *http.Request) int64 {
		n, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		return n
	}})(ok))
	for i, c := range []struct {
		cost   string
		status int
	}{{"8", 200}, {"5", 429}, {"2", 200}, {"0", 200}, {"1", 429}, {"11", 429}} {
		if got := s.get("/?n=" + c.cost); got.status != c.status {
			t.Errorf("request %d of cost %s: got %d want %d", i+1, c.cost, got.status, c.status)
		}
	}
}

// Two charges with the same policy and key share one budget.
func TestChargesShareBudgetByName(t *testing.T) {
	t.Parallel()
	p := policy("api", "10/1h")
	method := func(name string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == name }
	}
	s := listen(t, newMiddleware(t, nil,
		httplimit.Charge{Policy: p, When: method("GET")},
		httplimit.Charge{Policy: p, When: method("POST"), Cost: costs(5)},
	)(ok))
	for i, c := range []struct {
		method string
		status int
	}{{"POST", 200}, {"GET", 200}, {"POST", 429}, {"GET", 200}} {
		if got := s.do(c.method, "/"); got.status != c.status {
			t.Errorf("request %d, %s: got %d want %d", i+1, c.method, got.status, c.status)
		}
	}
}

// With nested middlewares the fields list both limits, and each limit denies separately.
func TestNestedMiddleware(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	outer := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: policy("address", "5/1h")})
	inner := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: policy("user", "2/1h"), Key: httplimit.Header("User")})
	s := listen(t, outer(inner(ok)))
	got := s.get("/", "User", "a")
	if listed := items(t, got.header, "RateLimit", "r"); got.status != 200 || listed["address"] != 4 || listed["user"] != 1 {
		t.Errorf("got %d, %v want both limits", got.status, listed)
	}
	if listed := items(t, got.header, "RateLimit-Policy", "q"); listed["address"] != 5 || listed["user"] != 2 {
		t.Errorf("got %v want both policies", listed)
	}
	s.get("/", "User", "a")
	if got := s.get("/", "User", "a"); got.status != 429 || !strings.Contains(got.body, `["user"]`) {
		t.Errorf("the third request of the user: got %d %s want a denial by user", got.status, got.body)
	}
	s.get("/", "User", "b")
	s.get("/", "User", "b")
	if got := s.get("/", "User", "c"); got.status != 429 || !strings.Contains(got.body, `["address"]`) {
		t.Errorf("the sixth request of the address: got %d %s want a denial by address", got.status, got.body)
	}
}

// For every combination of ten charges, also concurrently, the fields list the charges
// that apply.
func TestFieldsOfAppliedCharges(t *testing.T) {
	t.Parallel()
	var charges []httplimit.Charge
	for i := range 10 {
		charges = append(charges, httplimit.Charge{Policy: policy(strconv.Itoa(i), strconv.Itoa(1000+i)+"/1h"), When: func(r *http.Request) bool {
			mask, _ := strconv.Atoi(r.URL.RawQuery)
			return mask>>i&1 == 1
		}})
	}
	h := newMiddleware(t, nil, charges...)(ok)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for mask := worker; mask < 1<<10; mask += 2 { // each mask by two workers
				r := request("203.0.113.9:1")
				r.URL.RawQuery = strconv.Itoa(mask)
				listed := items(t, serve(h, r).Header(), "RateLimit-Policy", "q")
				for i := range 10 {
					if got, want := listed[strconv.Itoa(i)], int64(mask>>i&1)*int64(1000+i); got != want {
						t.Errorf("combination %b: policy %d has quota %d want %d", mask, i, got, want)
					}
				}
			}
		})
	}
	wg.Wait()
}

// IPv6 clients are limited per /64, and a second charge limits clients with many /64
// networks.
func TestAddressBlocks(t *testing.T) {
	t.Parallel()
	h := newMiddleware(t, nil,
		httplimit.Charge{Policy: policy("one", "2/1h")},
		httplimit.Charge{Policy: policy("site", "3/1h"), Key: httplimit.AddressBlock(48)},
	)(ok)
	for i, c := range []struct {
		addr   string
		status int
	}{
		{"[2001:db8:1:1::1]:1", 200},
		{"[2001:db8:1:1::2]:1", 200},
		{"[2001:db8:1:1:ffff::]:1", 429}, // the /64
		{"[2001:db8:1:2::1]:1", 200},
		{"[2001:db8:1:3::1]:1", 429}, // the /48
		{"[2001:db8:2:3::1]:1", 200},
		{"203.0.113.1:1", 200},
		{"203.0.113.2:1", 200},
		{"[::ffff:203.0.113.2]:1", 200}, // T35
		{"203.0.113.2:1", 429},
	} {
		if got := serve(h, request(c.addr)).Code; got != c.status {
			t.Errorf("request %d of %s: got %d want %d", i+1, c.addr, got, c.status)
		}
	}
}

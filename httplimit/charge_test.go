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

// items are the names of a structured field's items, as an independent parser reads them, with one parameter of each.
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

// The policy is chosen request by request; whom none is for is not limited.
func TestTiers(t *testing.T) {
	t.Parallel()
	key := httplimit.Header("Key")
	s := listen(t, by(t, nil,
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
			told := items(t, got.header, "RateLimit-Policy", "q")
			if _, ok := told[name]; len(told) > 1 || ok != (name != "internal") {
				t.Errorf("%s: got the fields of %v want its own alone", name, told)
			}
		}
		if admitted != want {
			t.Errorf("%s: admitted %d want %d", name, admitted, want)
		}
	}
}

// All or none: what one policy denies spends nothing of another. T2, T3.
func TestAllOrNone(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	wide, narrow := policy("wide", "100/1h"), policy("narrow", "2/1h")
	s := listen(t, over(t, store, nil,
		httplimit.Charge{Policy: wide, Key: httplimit.Global()},
		httplimit.Charge{Policy: narrow, Key: httplimit.Header("Key")},
	)(ok))
	for i := range 10 {
		got := s.get("/", "Key", "k")
		if want := []int{200, 200, 429}[min(i, 2)]; got.status != want {
			t.Errorf("request %d: got %d want %d", i+1, got.status, want)
		}
		if told := items(t, got.header, "RateLimit-Policy", "q"); told["wide"] != 100 || told["narrow"] != 2 {
			t.Errorf("request %d: got %v want both policies", i+1, told)
		}
		if got.status == 429 && strings.Contains(got.body, "wide") {
			t.Errorf("request %d: %s: wide did not deny", i+1, got.body)
		}
	}
	if got := remaining(t, store, wide, ""); got != 98 {
		t.Errorf("wide has %d left want 98: denials spend nothing", got)
	}
}

func TestCostPerRequest(t *testing.T) {
	t.Parallel()
	s := listen(t, by(t, nil, httplimit.Charge{Policy: policy("api", "10/1h"), Cost: func(r *http.Request) int64 {
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

// One budget, charged in two ways.
func TestOneBudgetTwoCosts(t *testing.T) {
	t.Parallel()
	p := policy("api", "10/1h")
	method := func(name string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == name }
	}
	s := listen(t, by(t, nil,
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

// An outer middleware by address and an inner one by user: both limits stand in the fields, and each denies by itself.
func TestNested(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	outer := over(t, store, nil, httplimit.Charge{Policy: policy("address", "5/1h")})
	inner := over(t, store, nil, httplimit.Charge{Policy: policy("user", "2/1h"), Key: httplimit.Header("User")})
	s := listen(t, outer(inner(ok)))
	got := s.get("/", "User", "a")
	if told := items(t, got.header, "RateLimit", "r"); got.status != 200 || told["address"] != 4 || told["user"] != 1 {
		t.Errorf("got %d, %v want both limits", got.status, told)
	}
	if told := items(t, got.header, "RateLimit-Policy", "q"); told["address"] != 5 || told["user"] != 2 {
		t.Errorf("got %v want both policies", told)
	}
	s.get("/", "User", "a")
	if got := s.get("/", "User", "a"); got.status != 429 || !strings.Contains(got.body, `["user"]`) {
		t.Errorf("the user's third: got %d %s want a denial of user's", got.status, got.body)
	}
	s.get("/", "User", "b")
	s.get("/", "User", "b")
	if got := s.get("/", "User", "c"); got.status != 429 || !strings.Contains(got.body, `["address"]`) {
		t.Errorf("the address' sixth: got %d %s want a denial of address'", got.status, got.body)
	}
}

// Every combination of ten charges, some at once: the fields are always those of the charges that hold.
func TestCombinations(t *testing.T) {
	t.Parallel()
	var charges []httplimit.Charge
	for i := range 10 {
		charges = append(charges, httplimit.Charge{Policy: policy(strconv.Itoa(i), strconv.Itoa(1000+i)+"/1h"), When: func(r *http.Request) bool {
			mask, _ := strconv.Atoi(r.URL.RawQuery)
			return mask>>i&1 == 1
		}})
	}
	h := by(t, nil, charges...)(ok)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for mask := worker; mask < 1<<10; mask += 2 { // each by two workers
				r := request("203.0.113.9:1")
				r.URL.RawQuery = strconv.Itoa(mask)
				told := items(t, serve(h, r).Header(), "RateLimit-Policy", "q")
				for i := range 10 {
					if got, want := told[strconv.Itoa(i)], int64(mask>>i&1)*int64(1000+i); got != want {
						t.Errorf("combination %b: policy %d is told as %d want %d", mask, i, got, want)
					}
				}
			}
		})
	}
	wg.Wait()
}

// IPv6 clients are known by their /64, and a second charge bounds who holds many.
func TestAddressBlocks(t *testing.T) {
	t.Parallel()
	h := by(t, nil,
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

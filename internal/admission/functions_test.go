package admission_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/key"
	"github.com/headgate/headgate/memstore"
)

// selector returns a function that differs for each text.
func selector(text string) func() string { return func() string { return text } }

// TestClaimFunctions: two middlewares on one store cannot share the state of a policy
// without a name if different functions select their keys.
func TestClaimFunctions(t *testing.T) {
	t.Parallel()
	user, tenant := selector("user"), selector("tenant")
	keyOf := func(parts ...key.Part[client]) *key.Key[client] {
		k, err := key.Join(parts...).Key(key.Address[client](64))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	by := func(f func() string) *key.Key[client] { return keyOf(key.Func[client](f, part{})) }
	with := func(f func() string) *key.Key[client] {
		return keyOf(key.Text[client]("path", part{}), key.Func[client](f, part{}))
	}
	unnamed, two := headgate.MustPolicy("2/1m"), headgate.MustPolicy("2/1m", "9/1h")
	other := unnamed
	other.Algorithm = headgate.FixedWindow
	gcra := unnamed
	gcra.Algorithm = headgate.GCRA
	for _, c := range []struct {
		name   string
		policy [2]headgate.Policy
		key    [2]*key.Key[client]
		ok     bool
	}{
		{"two functions", [2]headgate.Policy{unnamed, unnamed}, [2]*key.Key[client]{by(user), by(tenant)}, false},
		{"two functions, two names of one algorithm", [2]headgate.Policy{unnamed, gcra}, [2]*key.Key[client]{by(user), by(tenant)}, false},
		{"two functions, one limit in common", [2]headgate.Policy{unnamed, two}, [2]*key.Key[client]{by(user), by(tenant)}, false},
		{"two functions with a path", [2]headgate.Policy{unnamed, unnamed}, [2]*key.Key[client]{with(user), with(tenant)}, false},
		{"one function", [2]headgate.Policy{unnamed, unnamed}, [2]*key.Key[client]{by(user), by(user)}, true},
		{"two limits", [2]headgate.Policy{unnamed, headgate.MustPolicy("3/1m")}, [2]*key.Key[client]{by(user), by(tenant)}, true},
		{"two algorithms", [2]headgate.Policy{unnamed, other}, [2]*key.Key[client]{by(user), by(tenant)}, true},
		{"two kinds of key", [2]headgate.Policy{unnamed, unnamed}, [2]*key.Key[client]{by(user), with(tenant)}, true},
		{"names", [2]headgate.Policy{headgate.MustNamedPolicy("a", "2/1m"), headgate.MustNamedPolicy("b", "2/1m")}, [2]*key.Key[client]{by(user), by(tenant)}, true},
		{"one name", [2]headgate.Policy{unnamed, headgate.MustNamedPolicy("b", "2/1m")}, [2]*key.Key[client]{by(user), by(tenant)}, true},
	} {
		store, invalid := memstore.New(nil), errors.New("invalid")
		for i := range c.policy {
			all := []admission.Keyed[client]{{Policy: c.policy[i], Key: c.key[i]}}
			_, err := admission.BindAll(store, all, invalid)
			if want := i == 0 || c.ok; (err == nil) != want {
				t.Errorf("%s: middleware %d: got error %v want none: %v", c.name, i+1, err, want)
			}
			if err != nil && (!errors.Is(err, invalid) || !strings.Contains(err.Error(), `headgate.MustNamedPolicy("name", "2/m")`)) {
				t.Errorf("%s: got error %v want the name as advice", c.name, err)
			}
			// Another store has other states.
			if _, err := admission.BindAll(memstore.New(nil), all, invalid); err != nil {
				t.Errorf("%s: another store: got error %v want none", c.name, err)
			}
		}
	}
}

// TestClaimsAreForgotten: the functions of a store are removed with the store, even if
// they refer to it.
func TestClaimsAreForgotten(t *testing.T) { //nolint:paralleltest // it counts all claims
	before := admission.Claims()
	for range 100 {
		store := memstore.New(nil)
		k, err := key.Func[client](func() bool { return store == nil }, part{}).Key(key.Address[client](64))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admission.BindAll(store, []admission.Keyed[client]{{Policy: headgate.MustPolicy("2/1m"), Key: k}}, errors.New("invalid")); err != nil {
			t.Fatal(err)
		}
	}
	if n := admission.Claims() - before; n < 1 {
		t.Fatalf("got %d claims want some", n)
	}
	for admission.Claims() > before+10 { // the test times out otherwise
		runtime.GC()
		runtime.Gosched()
	}
}

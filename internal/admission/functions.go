package admission

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/key"
	"github.com/headgate/headgate/internal/root"
)

// claims contains, for each store, the functions that select the keys of policies
// without a name. The name of a policy identifies its state. Without a name, the limits
// and the kind of key do, and all functions are one kind.
var claims = struct {
	mu  sync.Mutex
	all map[weak.Pointer[byte]]claimed // removed when the store is garbage
}{all: map[weak.Pointer[byte]]claimed{}}

// claimed contains the addresses of the functions by the state that they select. The
// addresses do not keep the functions alive, which may refer to the store.
type claimed map[state][]uintptr

// state identifies the state of a limit in a store.
type state struct {
	scope     string
	algorithm headgate.Algorithm
}

// ClaimFunctions records the functions in the keys of policies without a name. It
// returns an error that matches invalid if another middleware on the same store uses
// other functions for the same state: the keys of one would then spend the budgets of
// the other. kinds has the same meaning as in [Check].
func ClaimFunctions[R key.Request](store headgate.Store, all []Keyed[R], kinds bool, invalid error) error {
	for i, c := range all {
		functions := c.Key.Functions()
		if c.Policy.Name != "" || len(functions) == 0 {
			continue
		}
		for _, rule := range root.Rules(c.Policy) {
			of := state{rule.Scope, rule.Algorithm}
			if of.algorithm == "" || of.algorithm == headgate.GCRA {
				of.algorithm = headgate.TokenBucket
			}
			if kinds {
				of.scope += " by " + c.Key.Kind()
			}
			if !claim(store, of, functions) {
				return fmt.Errorf("%w: charge %d has a policy without a name and a key made with Func, and so has another middleware"+
					" on this store, with the same limit %s and another function; the two would share budgets:"+
					" give each policy a name with headgate.MustNamedPolicy(\"name\", %q)",
					invalid, i+1, rule.Limit, rule.Limit)
			}
		}
	}
	return nil
}

// claim records functions for a state. It returns false if other functions were
// recorded for that state before.
func claim(store headgate.Store, of state, functions []uintptr) bool {
	value := reflect.ValueOf(store)
	if value.Kind() != reflect.Pointer {
		return true // such a store cannot be recognized
	}
	address := (*byte)(value.UnsafePointer())
	id := weak.Make(address)
	claims.mu.Lock()
	defer claims.mu.Unlock()
	if claims.all[id] == nil {
		claims.all[id] = claimed{}
		runtime.AddCleanup(address, forget, id)
	}
	before, found := claims.all[id][of]
	if !found {
		claims.all[id][of] = functions
	}
	return !found || slices.Equal(before, functions)
}

// forget removes the functions of a store that is garbage.
func forget(id weak.Pointer[byte]) {
	claims.mu.Lock()
	defer claims.mu.Unlock()
	delete(claims.all, id)
}

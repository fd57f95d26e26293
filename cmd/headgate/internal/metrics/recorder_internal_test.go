package metrics

import (
	"fmt"
	"sync"
	"testing"
)

func TestConcurrentNewPolicies(t *testing.T) {
	t.Parallel()
	d := New(nil).Recorder("http")
	var all sync.WaitGroup
	begin := make(chan struct{})
	for range 8 {
		all.Go(func() {
			<-begin
			for i := range 300 {
				d.policy(fmt.Sprint(i)).shards[0].counts[Allowed].Add(1)
			}
		})
	}
	close(begin)
	all.Wait()
	for i := range 300 {
		if n := d.policy(fmt.Sprint(i)).total(Allowed); n != 8 {
			t.Errorf("policy %d was counted %d times, want 8", i, n)
		}
	}
}

func TestPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	d := New(nil).Recorder("http")
	full := make(map[string]*policy)
	for i := range maxPolicies {
		full[fmt.Sprint(i)] = &policy{}
	}
	d.policies.Store(&full)
	if known, late, later := d.policy("7"), d.policy("late"), d.policy("later"); known != full["7"] || late != later || late != d.policy(Others) {
		t.Error("policies after the first maxPolicies must be counted as others, the first must not")
	}
	if n := len(*d.policies.Load()); n != maxPolicies+1 {
		t.Errorf("%d policies are counted separately, want %d and others", n, maxPolicies)
	}
}

func TestInvalidUTF8PolicyName(t *testing.T) {
	t.Parallel()
	d := New(nil).Recorder("http")
	first := d.policy("a\xff")
	if again, proper := d.policy("a\xff"), d.policy("a_"); again != first || proper != first {
		t.Error("an invalid name must always be the same policy")
	}
}

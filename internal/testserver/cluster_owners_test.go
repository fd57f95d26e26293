package testserver

import "testing"

// Other nodes list a killed master as the owner of its slots until a replica takes over.
func TestFailedMasterServesNoRequests(t *testing.T) {
	t.Parallel()
	one, other := &RedisServer{process: &process{}}, &RedisServer{process: &process{}}
	c := &RedisCluster{ids: map[string]*RedisServer{"one": one, "other": other}}
	for name, p := range map[string]struct {
		view peer
		want *RedisServer
	}{
		"a range":                {peer{"one", "myself,master", "-", []string{"0-5460"}}, one},
		"one slot":               {peer{"one", "master", "-", []string{"0-6", "7"}}, one},
		"another range":          {peer{"one", "master", "-", []string{"8-16383"}}, nil},
		"a slot on its way here": {peer{"one", "master", "-", []string{"[7-<-other]"}}, nil},
		"failed":                 {peer{"one", "master,fail", "-", []string{"0-5460"}}, nil},
		"perhaps failed":         {peer{"one", "master,fail?", "-", []string{"0-5460"}}, one},
		"a replica":              {peer{"one", "slave", "other", nil}, nil},
	} {
		if got, _ := c.owners([]peer{p.view}, 7); got != p.want {
			t.Errorf("%s: got %v want %v", name, got != nil, p.want != nil)
		}
	}
}

package redisstore

import "testing"

func TestMayFly(t *testing.T) {
	for _, c := range []struct {
		flying, aboard, ops int
		want                bool
	}{
		{0, 0, 1, true},
		{1, 1, 1, true}, // few do not wait for each other
		{2, 2, 1, true},
		{1, 3, 1, true},
		{1, 4, 1, false},
		{2, 3, 2, false},
		{1, 30, enough - 1, false},
		{1, 30, enough, true},
		{2, 60, enough, true},
		{mostFlying, mostFlying, 1, false},
		{mostFlying, 90, enough, false},
	} {
		l := &lane{flying: c.flying, aboard: c.aboard}
		if got := l.mayFly(c.ops); got != c.want {
			t.Errorf("%d with %d operations under way, %d wait: got %v want %v", c.flying, c.aboard, c.ops, got, c.want)
		}
	}
}

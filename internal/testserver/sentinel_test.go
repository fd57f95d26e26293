package testserver_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := testserver.Sentinel(t, testserver.Password("secret"))
	first := s.Master(t)
	first.Do(t, "SET", "k", "v")
	first.Do(t, "WAIT", "2", "0")
	second := s.Failover(t)
	if second == first || s.Master(t) != second {
		t.Errorf("master after a failover: got %s want another one than %s", s.Master(t).Addr(), first.Addr())
	}
	if dead := s.KillMaster(t); dead != second {
		t.Errorf("dead: got %s want %s", dead.Addr(), second.Addr())
	}
	third := s.Master(t)
	if got := third.Do(t, "GET", "k").String(); got != "v" || third == second {
		t.Errorf("GET k of %s: got %q want v of another one than %s", third.Addr(), got, second.Addr())
	}
	second.Start()
	s.Wait(t)
	if got := second.Do(t, "ROLE").Items[0].String(); got != "slave" {
		t.Errorf("role of the dead that is back: got %s want slave", got)
	}
	if len(s.Addrs()) != 3 || slices.Contains(s.Nodes(), s.Sentinels()[0]) {
		t.Errorf("sentinels: got %v want three that are no nodes", s.Addrs())
	}
}

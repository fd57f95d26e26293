package memcachedstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memcachedstore"
)

// mustFind fails the test unless Diagnose returns every wanted finding, each as “level
// check: text → advice”.
func mustFind(t *testing.T, servers []string, wanted ...string) {
	t.Helper()
	found, err := memcachedstore.Diagnose(t.Context(), nil, servers...)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range found {
		fmt.Fprintf(&text, "%s %s: %s → %s\n", f.Level, f.Check, f.Says, f.Advice)
	}
	for _, want := range wanted {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%v: got\n%swant %q", servers, &text, want)
		}
	}
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	well, socket := testserver.Memcached(t), testserver.MemcachedUnix(t)
	mustFind(t, []string{well.Addr()}, "ok version: memcached 1.", "ok memory: ", "ok eviction: nothing was evicted", "ok item size: ",
		"ok cas: ", "ok clock: within 3s of the server's clock", `ok clock: no process of namespace "default" has written its clock in the last hour`, fmt.Sprintf("ok decisions: tested %d algorithms", len(algo.Rates())), "ok latency: ")
	mustFind(t, []string{well.Addr(), socket.Addr()}, "ok version: "+well.Addr()+": memcached", "ok version: "+socket.Addr()+": memcached", "ok decisions: ")
	if lines := strings.Join(well.Do(t, "stats"), "\n"); !strings.Contains(lines, "curr_items 0") {
		t.Errorf("got %q want no items left", lines)
	}
	mustFind(t, []string{testserver.Memcached(t, "-C").Addr()}, "error cas: items have no CAS values → start memcached without the option -C")
	mustFind(t, []string{testserver.Memcached(t, "-I", "512k").Addr()}, "warning item size: the maximum item size is 524288 bytes")
	mustFind(t, []string{testserver.Memcached(t, "-M").Addr()}, "ok eviction: the server evicts nothing (-M)")
	mustFind(t, []string{testserver.Redis(t).Addr()}, "error connection: refused: ", "→ check that the server at this address is memcached")
	mustFind(t, []string{"127.0.0.1:1"}, "error connection: unreachable: ")
	if _, err := memcachedstore.Diagnose(t.Context(), nil, "host:port"); err == nil {
		t.Error("an invalid address: got no error")
	}
	if _, err := memcachedstore.Diagnose(t.Context(), &memcachedstore.Options{MaxTries: -1}, well.Addr()); err == nil {
		t.Error("invalid options: got no error")
	}
}

func TestDiagnoseSeesEvictions(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t, "-m", "1", "-I", "512k")
	value := strings.Repeat("x", 100_000)
	for i := 0; i < 200; i++ {
		if _, err := server.Try(fmt.Sprintf("set k%d 0 0 %d\r\n%s", i, len(value), value)); err != nil {
			break
		}
	}
	mustFind(t, []string{server.Addr()}, "warning eviction: ", "items were evicted since the server started")
}

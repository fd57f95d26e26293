package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
)

var crowdFlag = flag.Duration("crowd", time.Second, "duration of the wrk test")

// span measures the time from the start of the first request to the end of the last one.
type span struct {
	http.Handler
	mu          sync.Mutex
	first, last time.Time
}

func (s *span) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	s.Handler.ServeHTTP(w, r)
	ended := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() || start.Before(s.first) {
		s.first = start
	}
	if ended.After(s.last) {
		s.last = ended
	}
}

// wrk sends requests to url on 64 connections for d. It returns the counters of
// testdata/count.lua.
func wrk(t *testing.T, url string, d time.Duration) map[string]int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d+30*time.Second)
	defer cancel()
	seconds := fmt.Sprintf("%ds", max(1, int(d.Seconds())))
	out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c64", "-d"+seconds, "-s", "testdata/count.lua", url).CombinedOutput()
	if err != nil {
		t.Fatalf("wrk (Debian package wrk): %v\n%s", err, out)
	}
	found := map[string]int64{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var name string
		var n int64
		if count, _ := fmt.Sscanf(lines.Text(), "%s %d", &name, &n); count == 2 {
			found[name] = n
		}
	}
	t.Logf("%s\n%v", out, found)
	return found
}

// With 64 concurrent connections, never more than the limit is allowed, and every
// denial has Retry-After.
func TestConcurrentRequestsStayWithinLimit(t *testing.T) {
	const burst, perSecond = 100, 500
	s := &span{Handler: newMiddleware(t, nil, httplimit.Charge{Policy: policy("tokens", "500/1s burst 100")})(ok)}
	site := listen(t, s)
	got := wrk(t, site.URL, *crowdFlag)
	site.Close() // waits for requests in flight
	took := s.last.Sub(s.first)
	maxAllowed := burst + took.Seconds()*perSecond
	if float64(got["admitted"]) > maxAllowed || got["admitted"] < burst {
		t.Errorf("%d admitted in %v want %d to %.1f", got["admitted"], took, burst, maxAllowed)
	}
	if got["denied"] == 0 || got["hintless"] > 0 || got["other"] > 0 || got["broken"] > 0 {
		t.Errorf("got %v want denials, each with Retry-After, and nothing else", got)
	}
}

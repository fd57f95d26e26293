package dashboard_test

import (
	"bufio"
	"flag"
	"fmt"
	"net"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

var (
	soak   = flag.Duration("soak", 0, "how long TestSoak keeps the page open, such as 1h; 0 means an accelerated form")
	perSec = flag.Int("soak-rate", 5000, "checks per second during TestSoak")
)

// faster makes the clock of the page run faster, so that it polls more often.
const faster = `(() => {
	const real = performance.now.bind(performance), set = window.setInterval.bind(window);
	performance.now = () => real() * 20;
	window.setInterval = (run, ms, ...rest) => set(run, ms / 20, ...rest);
})()`

// sample is the memory of the tab and of the process.
type sample struct {
	after     time.Duration
	polls     int
	heap, rss int64 // bytes of the JavaScript heap after a collection, and of the process
	goHeap    int64 // bytes of the heap of the process after a collection
	nodes     int
}

func (s sample) String() string {
	return fmt.Sprintf("%6v: %6d polls, JavaScript heap %.2f MB, %d nodes, Go heap %.1f MB, RSS %.1f MB",
		s.after.Round(time.Second), s.polls, float64(s.heap)/1e6, s.nodes, float64(s.goHeap)/1e6, float64(s.rss)/1e6)
}

// TestSoak keeps the page open under load: neither the tab nor the process grows. With
// -soak 1h it runs in real time; else the clock of the page is up to twenty times as
// fast.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("this test takes twenty seconds")
	}
	s := start(t, policies)
	stop := s.load(t, *perSec)
	v := visitor{chromium.Start(t, desktop), t, s}
	if *soak == 0 {
		v.Do(t, chromedp.Evaluate[chromedp.Void]("0"))
		if _, err := chromedp.Call(v.Context, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: faster}); err != nil {
			t.Fatal(err)
		}
	}
	v.load("#key=key-1&key-policy=api")
	v.shows("[data-policy=api] .left", "left")
	v.until("document.documentElement.dataset.polled > 10")
	samples := v.samples()
	sent, lasted := stop()
	for _, one := range samples {
		t.Log(one)
	}
	first, last := least(samples[:len(samples)/2+1]), least(samples[len(samples)*2/3:])
	t.Logf("%d checks, %.0f per second", sent, float64(sent)/lasted.Seconds())
	if last.heap > first.heap+first.heap/5+500_000 || last.nodes > first.nodes+first.nodes/5 {
		t.Errorf("the tab grows: from %v to %v", first, last)
	}
	if last.goHeap > first.goHeap+first.goHeap/5+8_000_000 {
		t.Errorf("the process grows: from %v to %v", first, last)
	}
}

// least returns the lowest figures of samples. The page allocates while it is measured,
// so one sample may be too high.
func least(samples []sample) sample {
	one := samples[0]
	for _, s := range samples {
		one.heap, one.nodes, one.goHeap = min(one.heap, s.heap), min(one.nodes, s.nodes), min(one.goHeap, s.goHeap)
	}
	return one
}

// samples measures every minute for the duration of -soak, or else five times after 20
// polls each.
func (v visitor) samples() (all []sample) {
	v.t.Helper()
	begin := time.Now()
	if *soak == 0 {
		for i := range 5 {
			v.until("document.documentElement.dataset.polled >= %d", 20*(i+1))
			all = append(all, v.sample(begin))
		}
		return all
	}
	for time.Since(begin) < *soak {
		for next := begin.Add(time.Duration(len(all)) * min(*soak/10, time.Minute)); time.Now().Before(next); {
			time.Sleep(50 * time.Millisecond)
		}
		all = append(all, v.sample(begin))
	}
	return all
}

// sample collects garbage and measures. It removes the log, which this test keeps in the
// memory of the same process.
func (v visitor) sample(begin time.Time) sample {
	v.t.Helper()
	one := sample{after: time.Since(begin), polls: chromium.Eval[int](v.t, v.Browser, "Number(document.documentElement.dataset.polled)")}
	one.nodes = chromium.Eval[int](v.t, v.Browser, "document.querySelectorAll('*').length")
	if _, err := chromedp.Call(v.Context, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		v.t.Fatal(err)
	}
	usage, err := chromedp.Call(v.Context, cdpruntime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		v.t.Fatal(err)
	}
	one.heap = int64(usage.UsedSize)
	v.s.log.Clear()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	one.goHeap = int64(memory.HeapAlloc)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		v.t.Fatal(err)
	}
	kilobytes, err := strconv.ParseInt(string(regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)[1]), 10, 64)
	if err != nil {
		v.t.Fatal(err)
	}
	one.rss = kilobytes * 1024
	return one
}

// load sends checks at a rate, a part of which is denied. The returned function stops,
// and returns their number and the duration.
func (s *running) load(t testing.TB, rate int) (stop func() (sent int, lasted time.Duration)) {
	t.Helper()
	conn, err := net.Dial("tcp", s.resp)
	if err != nil {
		t.Fatal(err)
	}
	ended, sent, begin := make(chan struct{}), make(chan int), time.Now()
	go func() {
		defer conn.Close()
		replies, total := bufio.NewReader(conn), 0
		const beat = 10 * time.Millisecond
		n := max(1, rate/100)
		for next := time.Now(); ; next = next.Add(beat) {
			select {
			case <-ended:
				sent <- total
				return
			case <-time.After(time.Until(next)):
			}
			var batch strings.Builder
			for i := range n {
				policy := []string{"api", "api", "api", "login", "upload", "tokens"}[i%6]
				fmt.Fprintf(&batch, "HG.CHECK %s key-%d\r\n", policy, (total+i)%997)
			}
			if _, err := conn.Write([]byte(batch.String())); err != nil {
				sent <- total
				return
			}
			total += n
			skipReplies(replies, n)
		}
	}()
	return func() (int, time.Duration) { close(ended); return <-sent, time.Since(begin) }
}

// skipReplies reads n replies, of any number of nested elements.
func skipReplies(r *bufio.Reader, n int) {
	for ; n > 0; n-- {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if line[0] == '*' {
			elements, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
			n += elements
		}
		if line[0] == '$' && !strings.HasPrefix(line, "$-1") {
			_, _ = r.ReadString('\n')
		}
	}
}

package httpfields_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
)

var update = flag.Bool("update", false, "write the golden files anew")

// step is a charge on all limits of a scenario, so long after its start.
type step struct {
	after time.Duration
	cost  int64
	peek  bool
}

// scenario is limits and what happens to them; the answer to the last step is told.
type scenario struct {
	name   string
	limits []httpfields.Limit
	steps  []step
}

func now(cost int64) step                        { return step{cost: cost} }
func later(after time.Duration, cost int64) step { return step{after: after, cost: cost} }
func peek(after time.Duration, cost int64) step  { return step{after, cost, true} }

func one(text string, algorithm headgate.Algorithm) []httpfields.Limit {
	return []httpfields.Limit{limit("api", text, algorithm)}
}

var scenarios = []scenario{
	{"allowed, the first", one("100/1m", ""), []step{now(1)}},
	{"allowed, half", one("100/1m", ""), []step{now(50)}},
	{"allowed, nearly empty", one("100/1m", ""), []step{now(90)}},
	{"allowed, empty", one("100/1m", ""), []step{now(100)}},
	{"denied", one("100/1m", ""), []step{now(100), later(100*time.Millisecond, 1)}},
	{"denied, a cost of 60 when 50 are left", one("100/1m", ""), []step{now(50), now(60)}},
	{"denied, a cost of 60 when none is left", one("100/1m", ""), []step{now(100), now(60)}},
	{"never", one("100/1m", ""), []step{now(101)}},
	{"only asked, never used", one("100/1m", ""), []step{peek(0, 1)}},
	{"only asked, a denial", one("100/1m", ""), []step{now(100), peek(time.Second/2, 1)}},
	{"a burst, allowed", one("100/1m burst 500", ""), []step{now(1)}},
	{"a burst, denied", one("100/1m burst 500", ""), []step{now(500), now(1)}},
	{"refilled by intervals, allowed", one("10/1m burst 25", headgate.TokenBucketInterval), []step{now(1)}},
	{"refilled by intervals, empty", one("10/1m burst 25", headgate.TokenBucketInterval), []step{now(25)}},
	{"refilled by intervals, denied", one("10/1m burst 25", headgate.TokenBucketInterval), []step{now(25), later(20*time.Second, 11)}},
	{"fixed window, allowed", one("100/1m", headgate.FixedWindow), []step{later(20*time.Second, 1)}},
	{"fixed window, denied", one("100/1m", headgate.FixedWindow), []step{later(20*time.Second, 100), later(42500*time.Millisecond, 1)}},
	{"fixed window, only asked, never used", one("100/1m", headgate.FixedWindow), []step{peek(0, 1)}},
	{"sliding log, allowed", one("100/1m", headgate.SlidingLog), []step{now(20), later(30*time.Second, 1)}},
	{"sliding log, denied", one("100/1m", headgate.SlidingLog), []step{now(20), later(30*time.Second, 80), later(40*time.Second, 1)}},
	{"sliding window, allowed", one("100/1m", headgate.SlidingWindow), []step{now(20), later(70*time.Second, 1)}},
	{"sliding window, denied", one("100/1m", headgate.SlidingWindow), []step{now(100), later(75*time.Second, 25), later(75*time.Second, 1)}},
	{"leaky bucket, held", one("1/1s queue 4", headgate.LeakyBucket), []step{now(1), now(1)}},
	{"leaky bucket, denied", one("1/1s queue 4", headgate.LeakyBucket), []step{now(5), later(100*time.Millisecond, 1)}},
	{"a part of a second", one("5/100ms", ""), []step{now(5), now(1)}},
	{"a part of a second that is no whole part", one("3/300ms", ""), []step{now(2)}},
	{"a period of no whole seconds", one("5/1500ms", ""), []step{now(4)}},
	{"a long period", one("1000/30d", ""), []step{now(1)}},
	{
		"several, allowed",
		[]httpfields.Limit{limit("second", "10/1s", ""), limit("hour", "1000/1h", "")},
		[]step{now(1)},
	},
	{
		"several, the second is the tightest",
		[]httpfields.Limit{limit("second", "10/1s", ""), limit("hour", "12/1h", headgate.FixedWindow)},
		[]step{now(10), later(10*time.Second, 1)},
	},
	{
		"several, both deny",
		[]httpfields.Limit{limit("second", "10/1s", ""), limit("hour", "10/1h", "")},
		[]step{now(10), now(1)},
	},
	{
		"several, one of them never",
		[]httpfields.Limit{limit("second", "10/1s", ""), limit("hour", "1000/1h", "")},
		[]step{now(11)},
	},
	{
		"several without names, one twice, one of no whole seconds",
		[]httpfields.Limit{limit("", "10/1s", ""), limit("", "20/1500ms", ""), limit("", "10/1s", "")},
		[]step{now(1)},
	},
	{"a name to make safe", []httpfields.Limit{limit(" a \"b\\c\" é\n", "10/1s", "")}, []step{now(1)}},
}

var spoken = []struct {
	file string
	opts *httpfields.Options
}{
	{"ietf", nil},
	{"ietf-every", &httpfields.Options{AllLimits: true}},
	{"draft-07", speaking(httpfields.Draft07)},
	{"draft-06", speaking(httpfields.Draft06)},
	{"draft-03", speaking(httpfields.Draft03)},
	{"x-ratelimit", speaking(httpfields.XRateLimit)},
	{"x-ratelimit-epoch", speaking(httpfields.XRateLimitEpoch)},
	{"github", speaking(httpfields.GitHub)},
	{"off", speaking(httpfields.Off)},
	{"several", &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.IETF, httpfields.Draft03, httpfields.GitHub}, Expose: true}},
}

// told is what a writer says at the end of a scenario.
func (s *scenario) told(t *testing.T, w *httpfields.Writer) string {
	r := bind(t, newStore(t), "k", append([]httpfields.Limit(nil), s.limits...)...)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", s.name)
	for _, l := range s.limits {
		fmt.Fprintf(&b, "#   %q %s %s\n", l.Name, l.Limit, l.Algorithm)
	}
	var decisions []headgate.Decision
	var at headgate.Instant
	for _, step := range s.steps {
		at = start + headgate.Instant(step.after/time.Microsecond)
		decisions = r.decide(t, at, step.cost, step.peek)
		fmt.Fprintf(&b, "#   at %v cost %d peek %v\n", step.after, step.cost, step.peek)
	}
	h := write(w, w.Set(r.limits...), decisions, at)
	mustPass(t, h)
	b.WriteString(lines(h))
	return b.String()
}

// TestGolden holds every dialect against files that people have read. The instant of an answer is that of its last step, after
// 1747785600.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, d := range spoken {
		t.Run(d.file, func(t *testing.T) {
			t.Parallel()
			w := newWriter(t, d.opts)
			var all []string
			for i := range scenarios {
				all = append(all, scenarios[i].told(t, w))
			}
			got, file := strings.Join(all, "\n"), filepath.Join("testdata", d.file+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
			}
		})
	}
}

// What docs/http.md shows of each dialect is what is sent.
func TestDocsShowWhatIsSent(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.ToLower(string(docs))
	for _, d := range spoken {
		for i := range scenarios {
			if scenarios[i].name != "allowed, nearly empty" || d.opts != nil && d.opts.Expose {
				continue
			}
			for line := range strings.Lines(scenarios[i].told(t, newWriter(t, d.opts))) {
				if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") && !strings.Contains(shown, "`"+strings.ToLower(line)+"`") {
					t.Errorf("%s: %s is not shown", d.file, line)
				}
			}
		}
	}
}

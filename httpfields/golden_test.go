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

var update = flag.Bool("update", false, "update the golden files")

// step is a charge on all limits of a scenario, at a time after its start.
type step struct {
	after time.Duration
	cost  int64
	peek  bool
}

// scenario is a list of limits and the charges on them. The fields of the last step are
// written.
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

// counting returns a limit of a unit.
func counting(unit httpfields.Unit, text string, algorithm headgate.Algorithm) httpfields.Limit {
	l := limit(string(unit), text, algorithm)
	l.Unit = unit
	return l
}

var scenarios = []scenario{
	{"allowed, first request", one("100/1m", ""), []step{now(1)}},
	{"allowed, half", one("100/1m", ""), []step{now(50)}},
	{"allowed, nearly empty", one("100/1m", ""), []step{now(90)}},
	{"allowed, empty", one("100/1m", ""), []step{now(100)}},
	{"denied", one("100/1m", ""), []step{now(100), later(100*time.Millisecond, 1)}},
	{"denied, cost 60 with 50 remaining", one("100/1m", ""), []step{now(50), now(60)}},
	{"denied, cost 60 with 0 remaining", one("100/1m", ""), []step{now(100), now(60)}},
	{"cost above the limit", one("100/1m", ""), []step{now(101)}},
	{"peek, unused", one("100/1m", ""), []step{peek(0, 1)}},
	{"peek, denied", one("100/1m", ""), []step{now(100), peek(time.Second/2, 1)}},
	{"a burst, allowed", one("100/1m burst 500", ""), []step{now(1)}},
	{"a burst, denied", one("100/1m burst 500", ""), []step{now(500), now(1)}},
	{"refilled by intervals, allowed", one("10/1m burst 25", headgate.TokenBucketInterval), []step{now(1)}},
	{"refilled by intervals, empty", one("10/1m burst 25", headgate.TokenBucketInterval), []step{now(25)}},
	{"refilled by intervals, denied", one("10/1m burst 25", headgate.TokenBucketInterval), []step{now(25), later(20*time.Second, 11)}},
	{"fixed window, allowed", one("100/1m", headgate.FixedWindow), []step{later(20*time.Second, 1)}},
	{"fixed window, denied", one("100/1m", headgate.FixedWindow), []step{later(20*time.Second, 100), later(42500*time.Millisecond, 1)}},
	{"fixed window, peek, unused", one("100/1m", headgate.FixedWindow), []step{peek(0, 1)}},
	{"sliding log, allowed", one("100/1m", headgate.SlidingLog), []step{now(20), later(30*time.Second, 1)}},
	{"sliding log, denied", one("100/1m", headgate.SlidingLog), []step{now(20), later(30*time.Second, 80), later(40*time.Second, 1)}},
	{"sliding window, allowed", one("100/1m", headgate.SlidingWindow), []step{now(20), later(70*time.Second, 1)}},
	{"sliding window, denied", one("100/1m", headgate.SlidingWindow), []step{now(100), later(75*time.Second, 25), later(75*time.Second, 1)}},
	{"leaky bucket, delayed", one("1/1s queue 4", headgate.LeakyBucket), []step{now(1), now(1)}},
	{"leaky bucket, denied", one("1/1s queue 4", headgate.LeakyBucket), []step{now(5), later(100*time.Millisecond, 1)}},
	{"period below a second", one("5/100ms", ""), []step{now(5), now(1)}},
	{"period below a second, quota per second is whole", one("3/300ms", ""), []step{now(2)}},
	{"period with fractional seconds", one("5/1500ms", ""), []step{now(4)}},
	{"a long period", one("1000/30d", ""), []step{now(1)}},
	{
		"several, allowed",
		[]httpfields.Limit{limit("second", "10/1s", ""), limit("hour", "1000/1h", "")},
		[]step{now(1)},
	},
	{
		"several, second is tightest",
		[]httpfields.Limit{limit("second", "10/1s", ""), limit("hour", "12/1h", headgate.FixedWindow)},
		[]step{now(10), later(10*time.Second, 1)},
	},
	{
		"several, both deny",
		[]httpfields.Limit{limit("second", "10/1s", ""), limit("hour", "10/1h", "")},
		[]step{now(10), now(1)},
	},
	{
		"several, cost above one limit",
		[]httpfields.Limit{limit("second", "10/1s", ""), limit("hour", "1000/1h", "")},
		[]step{now(11)},
	},
	{
		"several without names, one duplicate, one with fractional seconds",
		[]httpfields.Limit{limit("", "10/1s", ""), limit("", "20/1500ms", ""), limit("", "10/1s", "")},
		[]step{now(1)},
	},
	{
		"requests, tokens and money",
		[]httpfields.Limit{counting("", "500/1m", ""), counting("tokens", "30000/1m", ""), counting("micro-dollars", "1000000/1h", "")},
		[]step{now(100), later(1500*time.Millisecond, 3)},
	},
	{
		"requests and tokens, two limits of tokens, denied",
		[]httpfields.Limit{
			counting(httpfields.Requests, "500/1m", ""), counting(httpfields.Tokens, "600/1m", ""), counting(httpfields.Tokens, "450/1h", headgate.FixedWindow),
			counting(httpfields.InputTokens, "900/1m", ""),
		},
		[]step{now(400), later(59*time.Second+time.Millisecond, 60)},
	},
	{"name with invalid characters", []httpfields.Limit{limit(" a \"b\\c\" é\n", "10/1s", "")}, []step{now(1)}},
}

var dialectFiles = []struct {
	file string
	opts *httpfields.Options
}{
	{"ietf", nil},
	{"ietf-all-limits", &httpfields.Options{AllLimits: true}},
	{"draft-07", withDialects(httpfields.Draft07)},
	{"draft-06", withDialects(httpfields.Draft06)},
	{"draft-03", withDialects(httpfields.Draft03)},
	{"x-ratelimit", withDialects(httpfields.XRateLimit)},
	{"x-ratelimit-epoch", withDialects(httpfields.XRateLimitEpoch)},
	{"github", withDialects(httpfields.GitHub)},
	{"openai", withDialects(httpfields.OpenAI)},
	{"anthropic", withDialects(httpfields.Anthropic)},
	{"off", withDialects(httpfields.Off)},
	{"several", &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.IETF, httpfields.Draft03, httpfields.GitHub}, Expose: true}},
}

// written returns the fields that a writer writes at the end of a scenario.
func (s *scenario) written(t *testing.T, w *httpfields.Writer) string {
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

// The fields of every dialect match the reviewed golden files. The time of a response is
// that of its last step, after 1747785600.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, d := range dialectFiles {
		t.Run(d.file, func(t *testing.T) {
			t.Parallel()
			w := newWriter(t, d.opts)
			var all []string
			for i := range scenarios {
				all = append(all, scenarios[i].written(t, w))
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

// The first example of docs/reference/header-fields.md is what the default dialect sends.
func TestDocsShowHeaderFields(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../docs/reference/header-fields.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(docs), "```\n")
	example, _, _ := strings.Cut(rest, "```")
	for i := range scenarios {
		if scenarios[i].name != "allowed, nearly empty" {
			continue
		}
		sent := strings.ToLower(scenarios[i].written(t, newWriter(t, nil)))
		for line := range strings.Lines(strings.ToLower(example)) {
			if !strings.Contains(sent, line) {
				t.Errorf("docs/reference/header-fields.md shows %q, and the fields are\n%s", line, sent)
			}
		}
	}
}

// docs/reference/header-fields.md lists the fields of each dialect as they are sent.
func TestDocsListFields(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../docs/reference/header-fields.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ToLower(string(docs))
	for _, d := range dialectFiles {
		for i := range scenarios {
			if scenarios[i].name != "allowed, nearly empty" || d.opts != nil && d.opts.Expose {
				continue
			}
			for line := range strings.Lines(scenarios[i].written(t, newWriter(t, d.opts))) {
				if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") && !strings.Contains(text, "`"+strings.ToLower(line)+"`") {
					t.Errorf("%s: docs/reference/header-fields.md does not contain %s", d.file, line)
				}
			}
		}
	}
}

package replay_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/replay"
)

var update = flag.Bool("update", false, "update the golden files")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tables, _, _ := strings.Cut(got, "unreadable lines\n") // log lines are not wrapped
	for line := range strings.Lines(tables) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("%s: the line is longer than 80 columns: %s", name, line)
		}
	}
	if got != string(want) {
		t.Errorf("the report is not that of %s; got:\n%s", file, got)
	}
}

// reportOf returns the report on logs, without values that differ between runs.
func reportOf(t *testing.T, logs []replay.Log, policies []headgate.Policy, opts *replay.Options) *replay.Report {
	t.Helper()
	opts.StoreStats = func(s headgate.Store) replay.StoreStats {
		stats := s.(*memstore.Store).Stats()
		return replay.StoreStats{Keys: int64(stats.Keys), Bytes: 1_000_000}
	}
	r, err := replay.Run(t.Context(), logs, policies, openMemory, opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Memory = replay.MemoryReport{BoundBytes: 256 << 20, RequestsBytes: 240_000, KeysBytes: 9_999, ProcessBytes: 12_345_678}
	r.ElapsedUS, r.LinesPerSecond = 1_500_000, 6666
	return r
}

func text(t *testing.T, r *replay.Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReportText(t *testing.T) {
	policies := replay.SideBySide(limits(t, "5/1m"), headgate.TokenBucket)
	golden(t, "report.txt", text(t, reportOf(t, realLog, policies, &replay.Options{})))

	policies = replay.SideBySide(limits(t, "1/1m burst 3", "20/24h"), everyAlgorithm()[:6]...)
	opts := &replay.Options{Key: mustParseKey(t, "ip+path"), Scratch: openMemory, Curve: true}
	golden(t, "report_all.txt", text(t, reportOf(t, realLog, policies, opts)))

	policies = []headgate.Policy{headgate.MustPolicy("2/1m")}
	hostile := reportOf(t, []replay.Log{hostileLog(t)}, policies, &replay.Options{})
	hostile.KeysExact, hostile.DenialsForgotten, hostile.Policies[0].Store.Overflowed = false, 3, 12_000
	hostile.Memory.SpilledRuns, hostile.Memory.SpilledBytes = 2, 180_000_000
	golden(t, "report_hostile.txt", text(t, hostile))
}

// hostileKeys are keys that contain markup and control characters.
var hostileKeys = []string{
	`</script><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'--><!--<svg onload=alert(1)>`, "{{.Data}}", "\u202egnp.exe",
	"\u2066a\u2069", "\x1b[31mred", "\x00", "", "línea ünïcode 漢字", "\ufffd", strings.Repeat("long ", 40), "a\u2028b",
}

func hostileLog(t *testing.T) replay.Log {
	t.Helper()
	var b strings.Builder
	for i, key := range hostileKeys {
		quoted, err := json.Marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 + len(hostileKeys) - i {
			b.WriteString(`{"ts_us":1000000,"key":` + string(quoted) + "}\n")
		}
	}
	b.WriteString("<script>alert(2)</script>\u202e\x1b[31m\n")
	return textLog(`<b>"log`, b.String())
}

func page(t *testing.T, r *replay.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// elements returns the contents of all elements <name …> … </name>.
func elements(page, name string) (contents []string) {
	for _, m := range regexp.MustCompile(`(?s)<`+name+`[^>]*>(.*?)</`+name+`>`).FindAllStringSubmatch(page, -1) {
		contents = append(contents, m[1])
	}
	return contents
}

func TestPageEscapesLogContent(t *testing.T) {
	for name, policies := range map[string][]headgate.Policy{
		"one":     {headgate.MustPolicy("2/1m")},
		"several": replay.SideBySide(limits(t, "2/1m", "3/1h"), everyAlgorithm()...),
	} {
		t.Run(name, func(t *testing.T) {
			r := reportOf(t, []replay.Log{hostileLog(t)}, policies, &replay.Options{})
			html := page(t, r)
			if n := strings.Count(html, "<script"); n != 3 {
				t.Errorf("the page has %d scripts, want its own 3", n)
			}
			for _, bad := range []string{"<img", "<svg onload", `<b>"`, "\u202e", "\u2066", "\x1b", "\x00", "url(", "@import"} {
				if strings.Contains(html, bad) {
					t.Errorf("the page holds %q", bad)
				}
			}
			if bad := regexp.MustCompile(`<[a-z][^>]* (src|href|style|on[a-z]+)=`).FindString(html); bad != "" {
				t.Errorf("the page holds %q", bad)
			}
			if want := `&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;`; !strings.Contains(html, want) {
				t.Errorf("the page does not show the key %s", want)
			}
		})
	}
}

// TestPagePolicy: the content security policy allows only the scripts and the style of
// the page.
func TestPagePolicy(t *testing.T) {
	html := page(t, reportOf(t, realLog, []headgate.Policy{headgate.MustPolicy("5/1m")}, &replay.Options{}))
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(html)
	if policy == nil || !strings.HasPrefix(policy[1], "default-src &#39;none&#39;; ") || strings.Contains(policy[1], "unsafe") {
		t.Fatalf("the page's policy is %q", policy)
	}
	scripts, styles := elements(html, "script"), elements(html, "style")
	if len(scripts) != 3 || len(styles) != 1 {
		t.Fatalf("%d scripts and %d styles, want 3 and 1", len(scripts), len(styles))
	}
	for _, content := range []string{scripts[1], scripts[2], styles[0]} {
		sum := sha256.Sum256([]byte(content))
		hash := base64.StdEncoding.EncodeToString(sum[:])
		if !strings.Contains(policy[1], "&#39;sha256-"+hash+"&#39;") {
			t.Errorf("the policy %s lacks the hash %s of %.40q…", policy[1], hash, content)
		}
	}
}

// TestPageData: the charts and the table have the data of the report's series.
func TestPageData(t *testing.T) {
	r := reportOf(t, realLog, replay.SideBySide(limits(t, "5/1m"), everyAlgorithm()...), &replay.Options{})
	html := page(t, r)
	var got replay.Series
	if err := json.Unmarshal([]byte(elements(html, "script")[0]), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, r.Series) || len(got.Denied) != len(everyAlgorithm()) {
		t.Errorf("the page's data is %+v, want %+v", got, r.Series)
	}
	if rows := strings.Count(html, `<tr><th scope="row">2015-05-`); rows != len(r.Series.Requests) {
		t.Errorf("the table has %d rows, want %d", rows, len(r.Series.Requests))
	}
	if charts := strings.Count(html, `<figure class="chart" data-chart=`); charts != 2 {
		t.Errorf("%d charts, want one for requests and one for denials", charts)
	}
	for _, p := range r.Policies { // the chart of denials has a line for each different series
		if title := titleOf(p.Algorithm); !regexp.MustCompile(`<li class="line-[1-7]"[^>]*>.*?</svg>[^<]*` + title).MatchString(html) {
			t.Errorf("the legend lacks %s", title)
		}
	}
}

// titleOf returns the name of an algorithm on the page.
func titleOf(a headgate.Algorithm) string {
	if a == headgate.TokenBucketInterval {
		return "Token bucket by interval"
	}
	words := strings.ReplaceAll(string(a), "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// TestPageAnswers: the page states how the algorithms differ and which one and which
// limit to choose.
func TestPageAnswers(t *testing.T) {
	const comparison = "The algorithms deny 1,893 (18.93 %) to 3,083 (30.83 %) of the requests, and affect 100 to 504 of 1,753 keys."
	several := replay.SideBySide(limits(t, "5/1m"), everyAlgorithm()[:6]...)
	for _, c := range []struct {
		name     string
		policies []headgate.Policy
		opts     replay.Options
		want     []string // how each answer begins
	}{
		{"one", several[:1], replay.Options{}, nil},
		{"several", several, replay.Options{}, []string{comparison}},
		{"one number of keys", []headgate.Policy{several[0], several[0]}, replay.Options{}, []string{
			"The algorithms deny 1,893 (18.93 %) to 1,893 (18.93 %) of the requests, and affect 100 of 1,753 keys.",
		}},
		{"measured", several, replay.Options{Scratch: openMemory}, []string{comparison + " Choose the token bucket: "}},
		{"curve", several[:1], replay.Options{Scratch: openMemory, Curve: true}, []string{"5/m denies 5.70 % of the keys and 18.93 % of the requests. "}},
	} {
		html := page(t, reportOf(t, realLog, c.policies, &c.opts))
		answers := regexp.MustCompile(`<p class="answer">(.*?)</p>`).FindAllStringSubmatch(html, -1)
		if len(answers) != len(c.want) {
			t.Errorf("%s: got the answers %q, want %q", c.name, answers, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(strings.ReplaceAll(answers[i][1], "\u00a0", " "), want) {
				t.Errorf("%s: got %q, want %q", c.name, answers[i][1], want)
			}
		}
	}
}

package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboardFiles are the dashboards of Grafana, from the root of the repository.
var dashboardFiles = []string{"packaging/grafana/headgate.json", "packaging/grafana/headgate-envoy.json"}

// dashboard is the part of a dashboard that the tests read.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Query string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr, LegendFormat string }
	}
}

func readDashboards(t *testing.T) (all []dashboard) {
	t.Helper()
	for _, name := range dashboardFiles {
		var d dashboard
		if err := json.Unmarshal([]byte(readRoot(t, name)), &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, d)
	}
	return all
}

var (
	metricName   = regexp.MustCompile(`\b(headgate|ratelimit|process|go)_[a-z0-9_]+\b`)
	labelMatcher = regexp.MustCompile(`([a-z_0-9]+)=~?"`)
	labelList    = regexp.MustCompile(`(?:by|on) \(([a-z_0-9, ]+)\)`)
	labelShown   = regexp.MustCompile(`\{\{ ?([a-z_0-9]+) ?\}\}`)
)

// namesIn returns the metrics and the labels in a query and in its legend. It omits the
// labels that Prometheus adds to every metric.
func namesIn(expr, legend string) (metrics, labels []string) {
	metrics = metricName.FindAllString(expr, -1)
	for _, m := range append(labelMatcher.FindAllStringSubmatch(expr, -1), labelShown.FindAllStringSubmatch(legend, -1)...) {
		labels = append(labels, m[1])
	}
	for _, m := range labelList.FindAllStringSubmatch(expr, -1) {
		labels = append(labels, strings.Split(m[1], ", ")...)
	}
	return metrics, slices.DeleteFunc(labels, func(l string) bool { return l == "job" || l == "instance" })
}

// Each query of the dashboards uses only metrics and labels that the service has, and
// each panel has a title, an ID and a place of its own.
func TestDashboardsUseExistingMetrics(t *testing.T) {
	t.Parallel()
	labels := metricLabels(t)
	for _, d := range readDashboards(t) {
		ids, queries := map[int]bool{}, 0
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W < 1 || p.GridPos.H < 1 {
				t.Errorf("%s: panel %d %q has no place, title or ID of its own", d.Title, p.ID, p.Title)
			}
			ids[p.ID] = true
			for _, q := range p.Targets {
				queries++
				names, used := namesIn(q.Expr, q.LegendFormat)
				if len(names) == 0 {
					t.Errorf("%s: %s: no metric in %s", d.Title, p.Title, q.Expr)
				}
				for _, name := range names {
					if _, ok := labels[name]; !ok {
						t.Errorf("%s: %s: the service has no metric %s", d.Title, p.Title, name)
					}
				}
				for _, l := range used {
					if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(labels[name], l) }) {
						t.Errorf("%s: %s: its metrics have no label %s", d.Title, p.Title, l)
					}
				}
			}
		}
		if queries < 10 {
			t.Errorf("%s has %d queries, want more", d.Title, queries)
		}
	}
}

// Every metric of the service, except those of Go and of the process, is in a dashboard,
// or listed here.
func TestDashboardsShowEveryMetric(t *testing.T) {
	t.Parallel()
	omitted := []string{
		"headgate_config_generation", "headgate_config_last_reload_success_timestamp_seconds", "headgate_config_loads_total",
		"headgate_config_refused_total", "headgate_draining", // in the log
		"headgate_decision_duration_seconds", "ratelimit_service_response_time_seconds", // their buckets are
		"headgate_lease_stranded_units_total", "headgate_lease_waits_total", "ratelimit_service_rate_limit_total_negative_hits",
	}
	var shown []string
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				names, _ := namesIn(q.Expr, "")
				shown = append(shown, names...)
			}
		}
	}
	for name := range metricLabels(t) {
		isOwn := strings.HasPrefix(name, "headgate_") || strings.HasPrefix(name, "ratelimit_")
		if isOwn && slices.Contains(shown, name) == slices.Contains(omitted, name) {
			t.Errorf("%s is in no dashboard, or it is listed as omitted", name)
		}
	}
}

// promtool runs promtool of Debian's package prometheus.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("promtool is installed by scripts/setup --long")
	}
	out, err := exec.Command("promtool", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// promtool accepts the alerts. For each alert, a case of testdata/alerts_test.yml shows
// that it fires with its text, and not before.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	cases, err := os.ReadFile("testdata/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range readAlerts(t) {
		if !strings.Contains(string(cases), "        alertname: "+a.Alert+"\n        exp_alerts:\n          - exp_labels:") {
			t.Errorf("testdata/alerts_test.yml has no case in which %s fires", a.Alert)
		}
	}
	promtool(t, "check", "rules", "../../../../packaging/prometheus-rules.yml")
	promtool(t, "test", "rules", "testdata/alerts_test.yml")
}

// promtool accepts each query of the dashboards, as the expression of a rule.
func TestDashboardQueriesAreValid(t *testing.T) {
	t.Parallel()
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboards\n    rules:\n")
	n := 0
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				n++
				expr, err := json.Marshal(variables.Replace(q.Expr))
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&rules, "      - {record: query_%d, expr: %s}\n", n, expr)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := promtool(t, "check", "rules", file); !strings.Contains(out, fmt.Sprintf("%d rules found", n)) {
		t.Errorf("got %s, want %d rules", out, n)
	}
}

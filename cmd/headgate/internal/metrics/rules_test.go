package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// alert is a rule of packaging/prometheus-rules.yml.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// Each alert uses only metrics and labels that the service has.
func TestAlertsUseExistingMetrics(t *testing.T) {
	t.Parallel()
	labels := metricLabels(t)
	for _, a := range readAlerts(t) {
		names := regexp.MustCompile(`\b(headgate|ratelimit|process)_[a-z_]+\b`).FindAllString(a.Expr, -1)
		for _, name := range names {
			if _, ok := labels[name]; !ok {
				t.Errorf("%s: the service has no metric %s", a.Alert, name)
			}
		}
		for _, l := range labelsOf(a) {
			if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(labels[name], l) }) {
				t.Errorf("%s: its metrics have no label %s", a.Alert, l)
			}
		}
	}
}

// Each alert has a severity, a summary and a section of the runbook, and each section of
// the runbook that is named after an alert has an alert.
func TestAlertsHaveRunbook(t *testing.T) {
	t.Parallel()
	const page = "https://github.com/headgate/headgate/blob/main/docs/operate/runbook.md#"
	var names []string
	for _, a := range readAlerts(t) {
		names = append(names, a.Alert)
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: the severity is %q, want critical or warning", a.Alert, s)
		}
		if a.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", a.Alert)
		}
		if got, want := a.Annotations["runbook_url"], page+strings.ToLower(a.Alert); got != want {
			t.Errorf("%s: runbook_url is %s, want %s", a.Alert, got, want)
		}
	}
	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^## (Headgate[A-Za-z]+)$`).FindAllStringSubmatch(readRoot(t, "docs/operate/runbook.md"), -1) {
		sections = append(sections, m[1])
	}
	if !slices.Equal(names, sections) {
		t.Errorf("the runbook has sections for %v, want %v", sections, names)
	}
}

// readAlerts returns the rules of the file.
func readAlerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	dec := yaml.NewDecoder(strings.NewReader(readRoot(t, "packaging/prometheus-rules.yml")))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("the file has no rules")
	}
	return all
}

// labelsOf returns the labels that an alert selects, keeps or shows. It omits labels that
// Prometheus adds to every metric.
func labelsOf(a alert) (found []string) {
	add := func(name string) {
		if !slices.Contains([]string{"job", "instance"}, name) {
			found = append(found, name)
		}
	}
	for _, m := range regexp.MustCompile(`([a-z_]+)=~?"|\$labels\.([a-z_]+)`).FindAllStringSubmatch(a.Expr+a.Annotations["summary"], -1) {
		add(m[1] + m[2])
	}
	for _, m := range regexp.MustCompile(`(?:by|on) \(([a-z_, ]+)\)`).FindAllStringSubmatch(a.Expr, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			add(name)
		}
	}
	return found
}

// metricLabels returns the labels of each metric of the service, by the names of its
// series.
func metricLabels(t *testing.T) map[string][]string {
	t.Helper()
	families, err := newUsedMetrics(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, f := range families {
		var names []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				names = append(names, l.GetName())
			}
		}
		labels[f.GetName()] = names
		if f.GetMetric()[0].GetHistogram() != nil {
			labels[f.GetName()+"_bucket"] = append(names, "le")
		}
	}
	return labels
}

// readRoot returns a file of the repository.
func readRoot(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

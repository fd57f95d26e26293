package config_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

const completeFile = `# A login is limited by address, and so is every request to the API.
policies:
  login: {limits: ["5/15m"]}
  api: {limits: ["100/1s"]}
# The routes of the shop.
routes:
  - match: {path: /login}
    policies: [login]
  - match: {path: /api/**}
    policies: [api]
`

// A file that may be incomplete takes effect once it has not changed for 5 s. Any other
// file takes effect immediately.
func TestIncompleteFileWaits(t *testing.T) {
	t.Parallel()
	line := func(n int) string { return strings.Join(strings.SplitAfter(completeFile, "\n")[:n], "") }
	longer := strings.Replace(line(5), "5/15m", "6/15m", 1) + "# " + strings.Repeat("a long comment ", 100) + "\n"
	for _, c := range []struct {
		name, text string
		waits      bool
	}{
		{"no routes yet", line(5), true},
		{"one policy yet", line(3), true},
		{"one route yet", line(8), true},
		{"a changed policy, no routes yet", longer, true},
		{"other content, half as long", "policies: {a: {limits: 1/s}, b: {limits: 1/s}}\nroutes: [{match: {path: /a}, policies: [a]}, {policies: [b]}]\n", true},
		{"a changed limit", strings.Replace(completeFile, "100/1s", "10/1s", 1), false},
		{"no comment", strings.Replace(completeFile, "# The routes of the shop.\n", "", 1), false},
		{"another route", completeFile + "  - policies: [login]\n", false},
	} {
		var reports []config.Reload
		path, live := startComplete(t, func(r config.Reload) { reports = append(reports, r) })
		replace(t, path, c.text)
		began := time.Now()
		at := func(after time.Duration, generation uint64, again time.Duration, wantReports int) {
			t.Helper()
			if got := live.RefreshAt(began.Add(after)); got != again || live.Status().Generation != generation || len(reports) != wantReports {
				t.Errorf("%s: after %v: generation %d, again in %v, %d reports; want %d, %v, %d", c.name, after, live.Status().Generation, got, len(reports),
					generation, again, wantReports)
			}
		}
		if !c.waits {
			at(0, 2, 0, 1)
			continue
		}
		at(0, 1, 5*time.Second, 1)
		at(4*time.Second, 1, time.Second, 1)
		if len(reports) == 0 || !reports[0].Settling || reports[0].Err != nil {
			t.Fatalf("%s: got %+v want a report that the file settles", c.name, reports)
		}
		replace(t, path, c.text+"# continued\n")
		at(5*time.Second, 1, 5*time.Second, 2)
		at(9*time.Second, 1, time.Second, 2)
		at(10*time.Second, 2, 0, 3)
		at(20*time.Second, 2, 0, 3)
		if err := live.Status().Err; err != nil || reports[len(reports)-1].Settling {
			t.Errorf("%s: error %v, %+v; want the file in effect", c.name, err, reports)
		}
	}
}

// startComplete starts with completeFile, and returns the path of the file.
func startComplete(t *testing.T, onReload func(config.Reload)) (path string, live *config.Live) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "headgate.yaml")
	replace(t, path, completeFile)
	sources := config.Sources{Path: path}
	first, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	return path, config.Start(sources, first, func(*config.Config) error { return nil }, onReload)
}

// A file that is restored after it was empty is the effective file, and complete.
func TestRestoredFileIsComplete(t *testing.T) {
	t.Parallel()
	var last config.Reload
	path, live := startComplete(t, func(r config.Reload) { last = r })
	began := time.Now()
	replace(t, path, "")
	live.RefreshAt(began)
	if last.Err == nil {
		t.Error("an empty file: got no error")
	}
	replace(t, path, completeFile)
	if wait := live.RefreshAt(began.Add(time.Second)); wait != 0 || last.Settling || last.Err != nil || live.Status().Err != nil {
		t.Errorf("the same file again: got a wait of %v, report %+v, error %v; want it in effect", wait, last, live.Status().Err)
	}
}

// The complete file takes effect immediately, and so does the previous one; SIGHUP does
// not wait.
func TestIncompleteFileIsCompleted(t *testing.T) {
	t.Parallel()
	path, live := startComplete(t, nil)
	began := time.Now()
	half, _, _ := strings.Cut(completeFile, "routes:")
	for i, c := range []struct {
		text             string
		policies, routes int
		reload           bool
	}{
		{half, 2, 2, false},
		{completeFile, 2, 2, false},
		{half, 2, 2, false}, // it was not pending any more, so the time begins again
		{"policies: [", 2, 2, false},
		{half, 2, 2, false},
		{strings.Replace(completeFile, "5/15m", "6/15m", 1), 2, 2, false},
		{half, 2, 2, false},
		{half, 2, 0, true},
	} {
		replace(t, path, c.text)
		if c.reload {
			live.Reload()
		} else {
			live.RefreshAt(began.Add(time.Duration(i) * 4 * time.Second))
		}
		if got := live.Config(); len(got.Policies) != c.policies || len(got.Routes) != c.routes {
			t.Errorf("step %d: got %d policies and %d routes want %d and %d", i, len(got.Policies), len(got.Routes), c.policies, c.routes)
		}
	}
}

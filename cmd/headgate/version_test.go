package main

import (
	"runtime/debug"
	"testing"
)

func TestCommitOf(t *testing.T) {
	t.Parallel()
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	date := debug.BuildSetting{Key: "vcs.time", Value: "2026-11-22T16:19:00Z"}
	for _, c := range []struct {
		settings []debug.BuildSetting
		want     string
	}{
		{nil, ""},
		{[]debug.BuildSetting{date}, ""},
		{[]debug.BuildSetting{revision}, " (commit 0123456789ab)"},
		{[]debug.BuildSetting{revision, date}, " (commit 0123456789ab of 2026-11-22T16:19:00Z)"},
		{
			[]debug.BuildSetting{revision, date, {Key: "vcs.modified", Value: "true"}},
			" (commit 0123456789ab of 2026-11-22T16:19:00Z, modified)",
		},
	} {
		if got := commitOf(c.settings); got != c.want {
			t.Errorf("commitOf(%v): got %q, want %q", c.settings, got, c.want)
		}
	}
}

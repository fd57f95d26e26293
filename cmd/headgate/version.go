package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the Go version",
		Args:  flagsOnly,

		DisableFlagsInUseLine: true,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), versionLine())
		},
	}
}

// The linker sets these variables in released binaries and in packages (-X). They are
// empty in other builds, which use what the go command recorded in the binary.
var (
	releaseVersion string // v0.2.0
	releaseCommit  string // the full hash
	releaseDate    string // the time of the commit, RFC 3339
)

// version returns the version of the module, or “(devel)”, and the Go version.
func version() string {
	recorded := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		recorded = info.Main.Version
	}
	return cmp.Or(releaseVersion, recorded, "(devel)") + " " + runtime.Version()
}

// versionLine returns the program's name and version, and the commit with its date if
// they are known.
func versionLine() string {
	var settings []debug.BuildSetting
	if info, ok := debug.ReadBuildInfo(); ok {
		settings = info.Settings
	}
	if releaseCommit != "" {
		settings = []debug.BuildSetting{{Key: "vcs.revision", Value: releaseCommit}, {Key: "vcs.time", Value: releaseDate}}
	}
	return "headgate " + version() + commitOf(settings)
}

// commitOf returns “ (commit 0123456789ab of 2026-11-22T16:19:00Z)”, or "" if no commit
// is recorded. It adds “, modified” before the bracket if the files differed from the
// commit.
func commitOf(settings []debug.BuildSetting) string {
	recorded := make(map[string]string)
	for _, s := range settings {
		recorded[s.Key] = s.Value
	}
	revision, date := recorded["vcs.revision"], recorded["vcs.time"]
	if revision == "" {
		return ""
	}
	text := " (commit " + revision[:min(12, len(revision))]
	if date != "" {
		text += " of " + date
	}
	if recorded["vcs.modified"] == "true" {
		text += ", modified"
	}
	return text + ")"
}

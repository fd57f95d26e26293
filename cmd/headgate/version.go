package main

import (
	"fmt"
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

// version returns the version of the module and the Go version that are recorded in the
// binary, or “(devel)”.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version + " " + info.GoVersion
}

// versionLine returns the program's name and version, and the commit with its date if
// they are recorded in the binary.
func versionLine() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "headgate " + version()
	}
	return "headgate " + version() + commitOf(info.Settings)
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

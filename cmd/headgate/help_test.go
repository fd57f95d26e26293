package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// maxHelpColumns is the width of a terminal without settings.
const maxHelpColumns = 80

func TestHelpFitsTerminal(t *testing.T) {
	t.Parallel()
	for _, args := range commandPaths(rootCommand(), nil) {
		for _, flag := range []string{"--help", "--help-all"} {
			text, err := helpOf(append(args, flag)...)
			if err != nil && flag == "--help-all" {
				continue // a command whose flags are all listed by --help
			}
			if err != nil || len(text) < 50 {
				t.Errorf("headgate %s: got %q, %v", strings.Join(append(args, flag), " "), text, err)
			}
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > maxHelpColumns || strings.Contains(line, "\t") {
					t.Errorf("headgate %s %s: %d columns in %q, want at most %d and no tabs", strings.Join(args, " "), flag, n, line, maxHelpColumns)
				}
			}
		}
	}
}

// commandPaths returns the arguments that run each command below cmd, hidden ones
// included.
func commandPaths(cmd *cobra.Command, path []string) [][]string {
	all := [][]string{path}
	for _, sub := range cmd.Commands() {
		all = append(all, commandPaths(sub, append(slices.Clone(path), sub.Name()))...)
	}
	return all
}

func helpOf(args ...string) (string, error) {
	root, out := rootCommand(), new(bytes.Buffer)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(out)
	err := root.Execute()
	return out.String(), err
}

func TestEverySettingIsInOneFlagGroup(t *testing.T) {
	t.Parallel()
	groups := make(map[string]int)
	for _, g := range settingGroups {
		for _, path := range strings.Fields(g.common + " " + g.rare) {
			groups[path]++
		}
	}
	for _, s := range config.Settings() {
		if n := groups[s.Path]; n != 1 {
			t.Errorf("%s is in %d groups, want 1", s.Path, n)
		}
		delete(groups, s.Path)
	}
	for path := range groups {
		t.Errorf("%s is in a group, but is not a setting", path)
	}
}

func TestAllHelpListsEveryFlagOnce(t *testing.T) {
	t.Parallel()
	text, err := helpOf("serve", "--help-all")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range config.Settings() {
		if n := strings.Count(text, "  --"+s.Flag+" ") + strings.Count(text, "  --"+s.Flag+"\n"); n != 1 {
			t.Errorf("--%s is listed %d times, want once", s.Flag, n)
		}
	}
}

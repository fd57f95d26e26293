package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var updateCLIPage = flag.Bool("update-cli-page", false, "write docs/reference/cli.md")

const cliPage = "../../docs/reference/cli.md"

// docs/reference/cli.md contains the help of every command. The part before the marker
// is written by hand.
func TestCLIPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(cliPage)
	if err != nil {
		t.Fatal(err)
	}
	const marker = "<!-- The rest of this page is written by go test -run TestCLIPage -update-cli-page in cmd/headgate. -->\n"
	head, rest, found := strings.Cut(string(text), marker)
	if !found {
		t.Fatalf("%s has no line %s", cliPage, marker)
	}
	want := commandSections(t, rootCommand(), nil)
	for _, cmd := range rootCommand().Commands() {
		if row := "| [`headgate " + cmd.Name() + "`](#headgate-" + cmd.Name(); !cmd.Hidden && !strings.Contains(head, row) {
			t.Errorf("the table has no row that begins with %s", row)
		}
	}
	if *updateCLIPage {
		if err := os.WriteFile(cliPage, []byte(head+marker+want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if rest != want {
		t.Errorf("%s differs from the help of the commands; run go test . -run TestCLIPage -update-cli-page", cliPage)
	}
}

// commandSections returns a section with the help of each command without commands of
// its own.
func commandSections(t *testing.T, cmd *cobra.Command, path []string) string {
	t.Helper()
	var all strings.Builder
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" {
			continue
		}
		here := append(path[:len(path):len(path)], sub.Name())
		if sub.HasSubCommands() {
			if len(path) == 0 {
				all.WriteString("\n## headgate " + sub.Name() + "\n\n" + sub.Short + ".\n")
			}
			all.WriteString(commandSections(t, sub, here))
			continue
		}
		help, err := helpOf(append(here, "--help")...)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("\n" + strings.Repeat("#", len(here)+1) + " headgate " + strings.Join(here, " ") +
			"\n\n<!-- run: TestCLIPage -->\n```\n" + help + "```\n")
	}
	return all.String()
}

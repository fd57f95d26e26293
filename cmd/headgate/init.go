package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/starter"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

const initHelp = `Write an annotated configuration, headgate.yaml, and the files that belong to
it. The configuration is valid as it is; its comments show requests to send.
Existing files are never overwritten.

`

// initCommand returns the command “headgate init”.
func initCommand() *cobra.Command {
	cases := starter.Cases()
	folder, toStdout := ".", false
	cmd := &cobra.Command{
		Use:        "init [CASE]",
		Short:      "Write an annotated configuration: " + strings.Join(caseNames(cases), ", "),
		Long:       initHelp + caseHelp(cases),
		Example:    "  headgate init api\n  headgate init nginx --dir /etc/headgate\n  headgate init login --stdout",
		SuggestFor: []string{"new", "create", "generate", "scaffold", "setup", "example"},
		Args:       atMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := caseNamed(cases, args)
			if err != nil {
				return err
			}
			if toStdout {
				return writeAll(cmd.OutOrStdout(), c.Files[0].Text)
			}
			paths, err := c.Write(folder)
			if err != nil {
				return err
			}
			writeNextSteps(cmd.OutOrStdout(), paths)
			return nil
		},
	}
	cmd.Flags().StringVar(&folder, "dir", ".", "`folder` of the files; created if missing")
	cmd.Flags().BoolVar(&toStdout, "stdout", false, "print headgate.yaml; write no files")
	return cmd
}

// caseNamed returns the case in the arguments, or the first.
func caseNamed(cases []starter.Case, args []string) (starter.Case, error) {
	if len(args) == 0 {
		return cases[0], nil
	}
	i := slices.IndexFunc(cases, func(c starter.Case) bool { return c.Name == args[0] })
	if i >= 0 {
		return cases[i], nil
	}
	if nearest := suggest.Nearest(args[0], caseNames(cases)); nearest != "" {
		return starter.Case{}, fmt.Errorf("unknown case %q; did you mean headgate init %s?", args[0], nearest)
	}
	return starter.Case{}, fmt.Errorf("unknown case %q; must be one of %s", args[0], strings.Join(caseNames(cases), ", "))
}

func caseNames(cases []starter.Case) []string {
	var names []string
	for _, c := range cases {
		names = append(names, c.Name)
	}
	return names
}

// caseHelp returns one line for each case.
func caseHelp(cases []starter.Case) string {
	var lines []string
	for i, c := range cases {
		line := fmt.Sprintf("  %-6s %s", c.Name, c.Help)
		if i == 0 {
			line += " (default)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// writeNextSteps writes which files were written and the commands to use them.
func writeNextSteps(w io.Writer, paths []string) {
	for _, path := range paths {
		fmt.Fprintf(w, "wrote %s\n", path)
	}
	fmt.Fprintf(w, "try: headgate config check %s\n", paths[0])
	fmt.Fprintf(w, "try: headgate serve --config %s\n", filepath.Clean(paths[0]))
}

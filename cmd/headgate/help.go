package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/algo"
)

// helpCommand returns the command “headgate help”. Unlike the default of package cobra,
// it returns an error for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0 && of.HasSubCommands():
				return unknownCommand(of, rest[0])
			case len(rest) > 0:
				return fmt.Errorf("unexpected argument %.100q; see '%s --help'", withoutSecret(rest[0]), of.CommandPath())
			}
			return of.Help()
		},
		ValidArgsFunction: completeCommands,
	}
}

// completeCommands completes the name of a command after the commands in args, as
// arguments of “headgate help”.
func completeCommands(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	of, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, sub := range of.Commands() {
		if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), begin) {
			found = append(found, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeFlagValues makes the values of flags complete whose help lists them, as in
// on|shadow|off, and those of --algorithm, in cmd and in all commands below it.
func completeFlagValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		kind, _ := pflag.UnquoteUsage(f)
		values := strings.Split(kind, "|")
		switch {
		case f.Name == "algorithm":
			values = append(algo.Names(), "all")
		case len(values) == 1:
			return
		}
		// The error is ignored: a flag that has completions already keeps them.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	})
	for _, sub := range cmd.Commands() {
		completeFlagValues(sub)
	}
}

// completionHelp is the help of the completion command of each shell.
var completionHelp = map[string]string{
	"bash": `Print the completion script for bash, which needs the package bash-completion.

  now:     source <(headgate completion bash)
  always:  headgate completion bash > /etc/bash_completion.d/headgate`,
	"zsh": `Print the completion script for zsh.

  now:     source <(headgate completion zsh)
  always:  headgate completion zsh > "${fpath[1]}/_headgate"`,
	"fish": `Print the completion script for fish.

  now:     headgate completion fish | source
  always:  headgate completion fish > ~/.config/fish/completions/headgate.fish`,
	"powershell": `Print the completion script for PowerShell.

  now:     headgate completion powershell | Out-String | Invoke-Expression
  always:  add this line to the PowerShell profile`,
}

// addCompletion adds the command “headgate completion” of package cobra, with help
// texts of this program and an error for an unknown shell.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Short = "Print a completion script for a shell"
		cmd.Long = ""
		commandGroup(cmd)
		for _, shell := range cmd.Commands() {
			shell.Short = "Print the completion script for " + shell.Name()
			shell.Long = completionHelp[shell.Name()]
			shell.Args = flagsOnly
		}
	}
}

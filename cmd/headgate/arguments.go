package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// commandGroup makes cmd a group of commands. Run alone, the group prints its help; run
// with an unknown command, it returns an error.
func commandGroup(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, _ []string) error { return groupArgument(cmd) }
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// groupArgument returns an error if cmd is a group that was called with an argument, or
// nil. An argument of a group is an unknown command.
func groupArgument(cmd *cobra.Command) error {
	if !cmd.HasSubCommands() || cmd.Flags().NArg() == 0 {
		return nil
	}
	return unknownCommand(cmd, cmd.Flags().Arg(0))
}

// unknownCommand returns the error for a word after group that is not one of its
// commands.
func unknownCommand(group *cobra.Command, word string) error {
	message := "unknown command"
	if shown := withoutSecret(word); shown != "" {
		message += " " + strconv.Quote(shown)
	}
	if meant := commandFor(group, word); meant != "" {
		return fmt.Errorf("%s; did you mean \"%s\"? See '%s --help'", message, meant, group.CommandPath())
	}
	return fmt.Errorf("%s; see '%s --help'", message, group.CommandPath())
}

// commandFor returns the command that the user most likely meant by a word after group,
// or "". It compares the word with command names, and recognizes a URL or a file as the
// argument of a check command.
func commandFor(group *cobra.Command, word string) string {
	paths := commandWords(group)
	if meant := suggest.Nearest(word, slices.Sorted(maps.Keys(paths))); meant != "" {
		return paths[meant]
	}
	target := argumentKind(word)
	switch {
	case target == "" || group.Name() != "check" && group.Name() != target:
		return ""
	case withoutSecret(word) == "":
		return "headgate " + target + " check URL"
	default:
		return "headgate " + target + " check " + word
	}
}

// commandWords maps words after group to the paths of the commands that they mean:
// the names and synonyms of the group's own commands, and words for commands of other
// groups.
func commandWords(group *cobra.Command) map[string]string {
	paths := maps.Clone(otherGroups[group.Name()])
	if paths == nil {
		paths = make(map[string]string)
	}
	for _, sub := range group.Commands() {
		if group.Hidden || sub.Hidden {
			continue
		}
		for _, name := range append([]string{sub.Name()}, sub.SuggestFor...) {
			paths[name] = sub.CommandPath()
		}
	}
	return paths
}

// otherGroups maps words after a group to a command of another group.
var otherGroups = map[string]map[string]string{
	"headgate": {
		"validate": "headgate config check", "lint": "headgate config check", "verify": "headgate config check",
		"doctor": "headgate store check", "ping": "headgate service check", "health": "headgate service check",
		"healthcheck": "headgate service check",
	},
	"check": {"config": "headgate config check", "store": "headgate store check", "service": "headgate service check"},
}

// argumentKind returns what kind of argument a word appears to be: "config" for a file,
// "store" or "service" for a URL, or "" for anything else.
func argumentKind(word string) string {
	scheme, _, isURL := strings.Cut(word, "://")
	switch {
	case isURL && (scheme == "http" || scheme == "https"):
		return "service"
	case isURL:
		return "store"
	case strings.HasSuffix(word, ".yaml") || strings.HasSuffix(word, ".yml"):
		return "config"
	}
	return ""
}

// withoutSecret returns an argument for use in an error message, at most its first 100
// bytes. It returns "" if the argument may be a URL with a password.
func withoutSecret(word string) string {
	if strings.ContainsAny(word, "@?") {
		return ""
	}
	return word[:min(len(word), 100)]
}

// flagsOnly returns an error if a command that has only flags gets an argument. The
// error names the flag that the argument was most likely meant for. flagsOnly also
// handles --help-all.
func flagsOnly(cmd *cobra.Command, args []string) error {
	if all, err := cmd.Flags().GetBool(helpAllFlag); err == nil && all {
		return pflag.ErrHelp
	}
	if len(args) == 0 {
		return nil
	}
	message := "unexpected argument"
	shown := withoutSecret(args[0])
	if shown != "" {
		message += " " + strconv.Quote(shown)
	}
	if flag, value := flagForArgument(args[0]); cmd.Flags().Lookup(flag) != nil {
		if shown == "" {
			value = "URL"
		}
		return fmt.Errorf("%s; use --%s %s", message, flag, value)
	}
	return fmt.Errorf("%s; see '%s --help'", message, cmd.CommandPath())
}

// flagForArgument returns the flag that an argument was most likely meant for, and the
// value of that flag; both are "" if there is none.
func flagForArgument(word string) (flag, value string) {
	switch argumentKind(word) {
	case "config":
		return "config", word
	case "store":
		return "store", word
	}
	if _, err := strconv.ParseUint(word, 10, 16); err == nil {
		return "http-addr", "127.0.0.1:" + word
	}
	if _, port, err := net.SplitHostPort(word); err == nil && port != "" {
		return "http-addr", word
	}
	if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
		return "config", word
	}
	return "", ""
}

// oneArgument requires exactly one argument. The parameter name is the argument's name
// in the usage line, such as FILE.
func oneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || args[0] == "" { // empty: an unset variable of a shell
			return fmt.Errorf("%s is missing; usage: %s", name, cmd.UseLine())
		}
		return atMostOneArgument(cmd, args)
	}
}

// atMostOneArgument returns an error if there are two or more arguments.
func atMostOneArgument(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	if shown := withoutSecret(args[1]); shown != "" {
		return fmt.Errorf("unexpected argument %q; usage: %s", shown, cmd.UseLine())
	}
	return fmt.Errorf("unexpected second argument; usage: %s", cmd.UseLine())
}

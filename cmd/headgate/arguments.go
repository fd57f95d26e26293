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

// commandGroup makes cmd a group of commands: alone it prints its help, and it refuses
// unknown commands.
func commandGroup(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// unknownCommand returns the error for a word that is not a command of a group.
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

// commandFor returns the command that a word after group most likely means, or "": by its
// name, or by what the word is an argument of.
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

// commandWords returns the commands of group by the words that mean them: their names,
// synonyms, and words whose commands are in another group.
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

// otherGroups are words after a group that mean a command of another group.
var otherGroups = map[string]map[string]string{
	"headgate": {
		"validate": "headgate config check", "lint": "headgate config check", "verify": "headgate config check",
		"doctor": "headgate store check", "ping": "headgate service check", "health": "headgate service check",
		"healthcheck": "headgate service check",
	},
	"check": {"config": "headgate config check", "store": "headgate store check", "service": "headgate service check"},
}

// argumentKind returns what an argument looks like: config (a file), store or service (a
// URL), or "".
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

// withoutSecret returns an argument as an error can repeat it: "" for a URL that may
// contain a password.
func withoutSecret(word string) string {
	if strings.ContainsAny(word, "@?") {
		return ""
	}
	return word[:min(len(word), 100)]
}

// flagsOnly refuses arguments of a command that has only flags, and names the flag that
// each is for. It also handles --help-all.
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

// flagForArgument returns the flag, and its value, that an argument is most likely meant
// for.
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

// oneArgument requires exactly one argument, which the usage calls name.
func oneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s is missing; usage: %s", name, cmd.UseLine())
		}
		return atMostOneArgument(cmd, args)
	}
}

// atMostOneArgument refuses a second argument.
func atMostOneArgument(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	if shown := withoutSecret(args[1]); shown != "" {
		return fmt.Errorf("unexpected argument %q; usage: %s", shown, cmd.UseLine())
	}
	return fmt.Errorf("unexpected second argument; usage: %s", cmd.UseLine())
}

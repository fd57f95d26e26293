package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// flagsMeant maps flag names that other programs use to the flags of this program. If a
// name has several flags, an error suggests the first one that the command has.
var flagsMeant = map[string][]string{
	"port": {"http-addr"}, "listen": {"http-addr"}, "bind": {"http-addr"}, "addr": {"http-addr"},
	"address": {"http-addr"}, "host": {"http-addr"}, "http": {"http-addr"}, "http-port": {"http-addr"},
	"p": {"http-addr"}, "resp": {"resp-addr"}, "resp-port": {"resp-addr"}, "grpc": {"grpc-addr"},
	"grpc-port": {"grpc-addr"}, "admin-port": {"admin-addr"}, "metrics-port": {"metrics-addr"},
	"redis": {"store"}, "redis-url": {"store"}, "redis-addr": {"store"}, "redis-host": {"store"},
	"redis-port": {"store"}, "memcached": {"store"}, "backend": {"store"}, "storage": {"store"}, "url": {"store"},
	"file": {"config"}, "config-file": {"config"}, "f": {"config"}, "debug": {"log-level"}, "verbose": {"log-level"},
	"fail-open": {"on-store-error"}, "fail-closed": {"on-store-error"}, "failure-mode": {"on-store-error"},
	"limit": {"policy"}, "output": {"html", "json"}, "o": {"html", "json"}, "requests": {"duration"},
	"concurrency": {"connections"}, "clients": {"connections"},
}

// flagError returns the error message for a parse error of package pflag.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		value   *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &value):
		kind, _ := pflag.UnquoteUsage(value.GetFlag())
		return fmt.Errorf("%s requires a value: %s", dashed(value.GetSpecifiedName(), value.GetSpecifiedShortnames()), kind)
	case errors.As(err, &invalid):
		if _, isToken := invalid.GetFlag().Value.(refusedToken); isToken { // without the value
			return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
		}
		if kind := flagKinds[invalid.GetFlag().Value.Type()]; kind != "" {
			return fmt.Errorf("--%s: %.40q is not %s", invalid.GetFlag().Name, invalid.GetValue(), kind)
		}
	}
	return err
}

// flagKinds maps types of flags to a description of their values.
var flagKinds = map[string]string{
	"int": "a whole number", "int64": "a whole number", "bool": "true or false", "duration": "a duration such as 5s or 1m30s",
	"file": "the name of a file",
}

// dashed returns a flag in the form in which the user wrote it: --name or -n.
func dashed(name, shorthands string) string {
	if shorthands != "" {
		return "-" + name
	}
	return "--" + name
}

// singleDashFlag returns an error if an argument is the name of a long flag after a
// single dash, such as -config=x. Package pflag would read this one as -c onfig=x.
func singleDashFlag(root *cobra.Command, args []string) error {
	cmd, _, err := root.Find(args)
	if err != nil {
		return nil // reported when the command line is run
	}
	cmd.InitDefaultHelpFlag() // otherwise the flag --help is defined later
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		switch {
		case arg == "--":
			return nil
		case !strings.HasPrefix(arg, "-") || len(name) < 2:
		case cmd.Flags().Lookup(name) != nil:
			return fmt.Errorf("unknown flag -%s; did you mean --%s? See '%s --help'", name, name, cmd.CommandPath())
		}
	}
	return nil
}

// exclusive returns an error if a flag and another flag of others were both given.
func exclusive(cmd *cobra.Command, flag string, others ...string) error {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	for _, other := range others {
		if cmd.Flags().Changed(other) {
			return fmt.Errorf("--%s and --%s cannot be used together; remove one", flag, other)
		}
	}
	return nil
}

// unknownFlag returns the error for a flag that cmd does not have. If the flag follows
// an unknown command, it returns the error for that command instead.
func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	name := err.GetSpecifiedName()
	message := "unknown flag " + dashed(name, err.GetSpecifiedShortnames())
	help := "'" + cmd.CommandPath() + " --help'"
	meant := flagFor(cmd.Flags(), name)
	switch serve := serveCommand(); {
	case meant != "":
		return fmt.Errorf("%s; did you mean %s? See %s", message, meant, help)
	case name == "version" || name == "v":
		return fmt.Errorf("%s; did you mean \"headgate version\"? See %s", message, help)
	case cmd.HasSubCommands() && serve.Flags().Lookup(name) != nil:
		return fmt.Errorf("%s; flags follow the command, as in 'headgate serve --%s'", message, name)
	}
	return fmt.Errorf("%s; see %s", message, help)
}

// maxAlternatives is the maximum number of flags that an error suggests.
const maxAlternatives = 5

// flagFor returns the flags that the user most likely meant by name, as text such as
// “--a or --b”, or "". It returns the flag for which name is a synonym, else all flags
// that end with name if there are at most maxAlternatives, else a flag of which name
// may be a misspelling.
func flagFor(flags *pflag.FlagSet, name string) string {
	synonyms := make(map[string]string)
	for synonym, meant := range flagsMeant {
		for _, flag := range slices.Backward(meant) {
			if flags.Lookup(flag) != nil {
				synonyms[synonym] = flag
			}
		}
	}
	if flag := synonyms[name]; flag != "" {
		return "--" + flag
	}
	if len(name) < 2 || flagsMeant[name] != nil {
		return ""
	}
	var names, ends []string
	flags.VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if strings.HasSuffix(f.Name, "-"+name) {
			ends = append(ends, "--"+f.Name)
		}
	})
	if n := len(ends); n > 0 && n <= maxAlternatives {
		return alternatives(ends)
	}
	meant := suggest.Nearest(name, append(names, slices.Sorted(maps.Keys(synonyms))...))
	if meant == "" {
		return ""
	}
	return "--" + cmp.Or(synonyms[meant], meant)
}

// alternatives joins words to “a, b or c”.
func alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Command headgate is a rate limiter. It runs the rate limit service, and has tools,
// for example to check a configuration, to benchmark a service and to replay access
// logs against a limit.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	_ "time/tzdata" // the zones of calendar_window on machines without a zone database

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // restores the default signal handling: a second signal ends the process
	if len(os.Args) > 1 && os.Args[1] == "/bin/ratelimit" {
		os.Args = os.Args[1:] // in containers, “command: /bin/ratelimit” is appended to the image's entry point
	}
	args := os.Args[1:]
	if calledRatelimit() && len(args) == 0 {
		args = []string{"serve"}
	}
	if err := execute(ctx, args); err != nil {
		if !errors.Is(err, errReported) {
			fmt.Fprintln(os.Stderr, "headgate:", withoutPackage(err.Error()))
		}
		os.Exit(1)
	}
}

// execute runs the command line args, without the program's name.
func execute(ctx context.Context, args []string) error {
	root := rootCommand()
	if err := singleDashFlag(root, args); err != nil {
		return err
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = groupArgument(cmd) // of “headgate config nosuch --help”, for which printHelp prints nothing
	}
	return err
}

// packageNames matches the names of packages at the beginning of an error message, or
// after the flag at the beginning.
var packageNames = regexp.MustCompile(`^(--[a-z-]+: )?(?:(?:headgate|replay|load): )+`)

// withoutPackage returns an error message without the package names at its beginning.
func withoutPackage(message string) string { return packageNames.ReplaceAllString(message, "$1") }

const rootHelp = `Headgate is a rate limiter: a service for every language and proxy, and a Go
library. Start with: headgate serve`

func rootCommand() *cobra.Command {
	root := commandGroup(&cobra.Command{
		Use:     "headgate",
		Long:    rootHelp,
		Example: "  headgate serve --config headgate.yaml\n  headgate config check headgate.yaml\n  headgate demo",
	})
	root.SilenceUsage, root.SilenceErrors = true, true
	printVersion := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*printVersion {
			return cmd.Help()
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
		return err
	}
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(printHelp)
	root.AddCommand(
		serveCommand(), initCommand(), configCommand(), storeCommand(), serviceCommand(), explainCommand(), keyCommand(), overrideCommand(),
		replayCommand(),
		benchCommand(), demoCommand(), versionCommand(), checkCommand(),
	)
	root.AddCommand(manualCommands()...)
	root.SetHelpCommand(helpCommand())
	addCompletion(root)
	completeFlagValues(root)
	return root
}

// errReported is the error of a command that has already printed its error messages. It
// sets only the exit status.
var errReported = errors.New("reported")

// detailed is an error of Envoy rules. Detail adds the positions and what is valid.
type detailed interface {
	error
	Detail() string
}

// reported prints each error of an invalid configuration on its own line and returns
// errReported. It returns any other error unchanged.
func reported(err error) error {
	var rules detailed
	if errors.As(err, &rules) {
		fmt.Fprintln(os.Stderr, rules.Detail())
		return errReported
	}
	var all config.Errors
	if !errors.As(err, &all) {
		return err
	}
	for _, one := range all {
		fmt.Fprintln(os.Stderr, one)
	}
	return errReported
}

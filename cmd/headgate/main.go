// Command headgate limits rates: as a service, and on logs before anyone is denied.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends a command that does not heed the first
	if len(os.Args) > 1 && os.Args[1] == "/bin/ratelimit" {
		os.Args = os.Args[1:] // “command: /bin/ratelimit” comes behind an image's entry point
	}
	root := rootCommand()
	if calledRatelimit() && len(os.Args) == 1 {
		root.SetArgs([]string{"serve"})
	}
	if err := root.ExecuteContext(ctx); err != nil {
		if !errors.Is(err, errReported) {
			fmt.Fprintln(os.Stderr, "headgate:", strings.TrimPrefix(err.Error(), "headgate: "))
		}
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "headgate",
		Short:         "A rate limiter: exact, in process or as a service",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(versionCommand(), serveCommand(), demoCommand(), replayCommand(),
		checkCommand(), configCommand(), explainCommand(), benchCommand())
	return root
}

// errReported ends a command that has already printed what is wrong.
var errReported = errors.New("reported")

// reported prints each error of a configuration on a line of its own and is errReported then; other errors are as they were.
func reported(err error) error {
	var all config.Errors
	if !errors.As(err, &all) {
		return err
	}
	for _, one := range all {
		fmt.Fprintln(os.Stderr, one)
	}
	return errReported
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of headgate and of Go",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "headgate", version())
		},
	}
}

// version is the module's version as the toolchain recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version + " " + info.GoVersion
}

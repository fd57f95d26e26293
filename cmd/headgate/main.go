// Command headgate limits rates: as a service, and on logs before anyone is denied.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
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
	root.AddCommand(versionCommand())
	root.AddCommand(serveCommand())
	root.AddCommand(demoCommand())
	root.AddCommand(replayCommand())
	root.AddCommand(checkCommand())
	root.AddCommand(configCommand())
	root.AddCommand(explainCommand())
	root.AddCommand(benchCommand())
	return root
}

// Command headgate is a rate limiter: a service, and a tool that replays access logs
// against a limit.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends a command that ignores the first
	if len(os.Args) > 1 && os.Args[1] == "/bin/ratelimit" {
		os.Args = os.Args[1:] // “command: /bin/ratelimit” follows the entry point of an image
	}
	root := rootCommand()
	if calledRatelimit() && len(os.Args) == 1 {
		root.SetArgs([]string{"serve"})
	}
	if err := root.ExecuteContext(ctx); err != nil {
		if !errors.Is(err, errReported) {
			fmt.Fprintln(os.Stderr, "headgate:", withoutPackage(err.Error()))
		}
		os.Exit(1)
	}
}

// packageNames match the names of packages at the beginning of an error, or after its
// flag.
var packageNames = regexp.MustCompile(`^(--[a-z-]+: )?(?:(?:headgate|replay|load): )+`)

// withoutPackage removes the package names from the beginning of an error.
func withoutPackage(message string) string { return packageNames.ReplaceAllString(message, "$1") }

const rootHelp = `Headgate is a rate limiter: a service for every language and proxy, and a Go
library. Start with: headgate serve`

func rootCommand() *cobra.Command {
	root := commandGroup(&cobra.Command{
		Use:     "headgate",
		Long:    rootHelp,
		Example: "  headgate serve --config headgate.yaml\n  headgate config check headgate.yaml\n  headgate demo",
		Version: versionLine(),
	})
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "v", false, "print the version")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(printHelp)
	root.AddCommand(
		serveCommand(), configCommand(), storeCommand(), serviceCommand(), explainCommand(), replayCommand(),
		benchCommand(), demoCommand(), versionCommand(), checkCommand(),
	)
	return root
}

// errReported ends a command that has already printed what is wrong.
var errReported = errors.New("reported")

// reported prints each error of a configuration on its own line and returns errReported.
// It returns other errors unchanged.
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

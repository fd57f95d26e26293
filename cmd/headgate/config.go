package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// configCommand is “headgate config” and what stands below it.
func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Say what is wrong with a configuration, what is in force, and what can be written",
		Args:  cobra.NoArgs, // so that a misspelt “check” does not pass for one
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configCheckCommand(), configPrintCommand(), configSchemaCommand())
	return cmd
}

func configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a file, with line and column",
		Long: "Check reads a configuration file as headgate serve would, without flags and environment, and says everything that is wrong with it.\n" +
			"It asks no store. The exit status is 1 if anything is wrong.",
		Example: "  headgate config check headgate.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			sources := config.Sources{Path: args[0], CheckStore: checkStoreURL}
			c, err := sources.Load()
			if err != nil {
				return reported(err)
			}
			if err := usable(c); err != nil {
				return reported(fmt.Errorf("%s: %w", args[0], err))
			}
			domains, more, err := envoyOf(c)
			if err != nil {
				return fmt.Errorf("%s: envoy.config: %w", c.Origins["envoy.config"], err)
			}
			for _, w := range append(c.Warnings, more...) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", args[0], w)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: fine: %s, %s%s\n", args[0], counted(len(c.Policies), "policy", "policies"), counted(len(c.Routes), "route", "routes"), domains)
			return nil
		},
	}
}

// usable reports a policy that the store of a configuration cannot hold.
func usable(c *config.Config) (err error) {
	store, err := storeopen.Open(string(c.Store), &storeopen.Options{Instances: max(1, c.Instances)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_, err = engine.New(store, c.Engine())
	return c.Refused(err)
}

// envoyOf is what a summary says of the files of envoy.config, with what works and is hardly meant.
func envoyOf(c *config.Config) (summary string, warnings []string, err error) {
	if c.Envoy.Config == "" {
		return "", nil, nil
	}
	domains, warnings, err := service.CheckEnvoy(&c.Envoy)
	return ", " + counted(domains, "domain", "domains") + " of Envoy's", warnings, err
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

func configPrintCommand() *cobra.Command {
	var flags settingFlags
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print what headgate serve would have in force with these flags, and where each setting came from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources := flags.sources()
			c, err := sources.Load()
			if err != nil {
				return reported(err)
			}
			return c.Print(cmd.OutOrStdout())
		},
	}
	flags.add(cmd.Flags())
	return cmd
}

func configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the file, for editors",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return writeAll(cmd.OutOrStdout(), config.Schema()) },
	}
}

func writeAll(w io.Writer, text []byte) error {
	_, err := w.Write(text)
	return err
}

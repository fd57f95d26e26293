package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// configCommand returns the command “headgate config”.
func configCommand() *cobra.Command {
	return commandGroup(
		&cobra.Command{Use: "config", Short: "Check and compare configuration files, print effective settings"},
		configCheckCommand(), configPrintCommand(), configDiffCommand(), configSchemaCommand(),
	)
}

const configCheckHelp = `Check a configuration file in the same way as headgate serve, but without flags
and environment variables. Every error is printed with line and column. The
check does not connect to the store. The exit status is 1 if the file is
invalid. A folder is checked as a folder of Envoy rules (--envoy-config).`

func configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "check FILE",
		Short:      "List all errors of a configuration file, with line and column",
		Long:       configCheckHelp,
		Example:    "  headgate config check headgate.yaml\n  headgate config check /etc/headgate/envoy",
		SuggestFor: []string{"validate", "verify", "lint", "test"},
		Args:       oneArgument("FILE"),

		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if isFolder(args[0]) {
				return checkEnvoyFolder(cmd, args[0])
			}
			return checkConfigFile(cmd, args[0])
		},
	}
}

// checkConfigFile prints the errors and warnings of a configuration file.
func checkConfigFile(cmd *cobra.Command, path string) error {
	sources := config.Sources{Path: path, CheckStore: checkStoreURL, MaxOpenHolds: maxOpenHolds}
	c, err := sources.Load()
	if err != nil {
		return reported(err)
	}
	if err := checkPolicies(c); err != nil {
		return reported(fmt.Errorf("%s: %w", path, err))
	}
	domains, warnings, err := checkEnvoyRules(c)
	if err != nil {
		return rulesError(c.Origins["envoy.config"], err)
	}
	printWarnings(cmd, path, append(c.Warnings, warnings...))
	policies, routes := counted(len(c.Policies), "policy", "policies"), counted(len(c.Routes), "route", "routes")
	fmt.Fprintf(cmd.OutOrStdout(), "%s: fine: %s, %s%s\n", path, policies, routes, domains)
	return nil
}

// rulesError returns err, of the rules in the folder that the setting at origin names.
func rulesError(origin string, err error) error {
	var rules detailed
	if errors.As(err, &rules) {
		return fmt.Errorf("%s: envoy.config: %s", origin, rules.Detail())
	}
	return fmt.Errorf("%s: envoy.config: %w", origin, err)
}

// checkEnvoyFolder prints the errors and warnings of a folder of Envoy rules.
func checkEnvoyFolder(cmd *cobra.Command, path string) error {
	sources := config.Sources{Flags: map[string]string{"envoy.config": path}}
	c, err := sources.Load()
	if err != nil {
		return reported(err)
	}
	domains, warnings, err := service.CheckEnvoy(c)
	if err != nil {
		return folderError(cmd, path, err)
	}
	if domains == 0 {
		return fmt.Errorf("the folder %s contains no Envoy rules; name a configuration file or a folder of files with a domain each", path)
	}
	printWarnings(cmd, path, warnings)
	fmt.Fprintf(cmd.OutOrStdout(), "%s: fine: %s\n", path, counted(domains, "Envoy domain", "Envoy domains"))
	return nil
}

// folderError prints err, and that the files of a folder are checked as Envoy rules.
func folderError(cmd *cobra.Command, path string, err error) error {
	if err = reported(err); errors.Is(err, errReported) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: the files of a folder are checked as Envoy rules; to check a configuration file, name it: "+
			"headgate config check %s\n", path, filepath.Join(path, "headgate.yaml"))
	}
	return err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func printWarnings(cmd *cobra.Command, path string, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", path, w)
	}
}

// checkPolicies returns an error if the configured store cannot enforce one of the
// policies.
func checkPolicies(c *config.Config) (err error) {
	store, err := storeopen.Open(string(c.Store), &storeopen.Options{Instances: max(1, c.Instances), Volatile: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_, err = engine.New(store, c.Engine())
	return c.Refused(err)
}

// checkEnvoyRules checks the files in the folder envoy.config, if that is set. The
// returned summary is text to append to the summary of the configuration, such as “, 2
// Envoy domains”.
func checkEnvoyRules(c *config.Config) (summary string, warnings []string, err error) {
	if c.Envoy.Config == "" {
		return "", nil, nil
	}
	domains, warnings, err := service.CheckEnvoy(c)
	return ", " + counted(domains, "Envoy domain", "Envoy domains"), warnings, err
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

const configPrintHelp = `Print the settings that headgate serve would apply with the same flags,
environment and file, and the source of each setting. Secrets are printed as
***.`

func configPrintCommand() *cobra.Command {
	var flags settingFlags
	var changed bool
	cmd := &cobra.Command{
		Use:        "print",
		Short:      "Print the effective settings and the source of each",
		Long:       configPrintHelp,
		Example:    "  headgate config print --config headgate.yaml",
		SuggestFor: []string{"show", "dump", "get", "list"},
		Args:       flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources := flags.sources()
			c, err := sources.Load()
			if err != nil {
				return reported(err)
			}
			if changed {
				return c.PrintChanged(cmd.OutOrStdout())
			}
			return c.Print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&changed, "changed", false, "omit settings that have their defaults")
	flags.add(cmd.Flags())
	return cmd
}

func configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file, for editors",
		Args:  flagsOnly,

		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, _ []string) error { return writeAll(cmd.OutOrStdout(), config.Schema()) },
	}
}

func writeAll(w io.Writer, text []byte) error {
	_, err := w.Write(text)
	return err
}

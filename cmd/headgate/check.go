package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

const checkStoreHelp = `Check store looks at a Redis, a Valkey or a memcached and says what is wrong with it as a store of limits: whether it can be
reached and written to, its version, what a full memory, a restart and a failover cost, what the user may not do, how long a decision
takes. It makes a few decisions under a namespace of its own and removes them.

Without a URL it takes that of HEADGATE_STORE, so that a password need not stand on the command line.

The exit status is 1 if decisions fail, or will.`

func checkCommand() *cobra.Command {
	check := &cobra.Command{Use: "check", Short: "Say what is wrong with what the service stands on"}
	var asJSON bool
	store := &cobra.Command{
		Use:   "store [URL]",
		Short: "Say what is wrong with a store",
		Long:  checkStoreHelp,
		Example: "  headgate check store redis://127.0.0.1:6379\n" +
			"  HEADGATE_STORE=redis://:secret@10.0.0.1 headgate check store --json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := os.Getenv(service.Variable("store"))
			if len(args) > 0 {
				url = args[0]
			}
			if url == "" {
				return fmt.Errorf("which store? Give its URL, such as redis://127.0.0.1:6379, or set %s", service.Variable("store"))
			}
			findings, err := storeopen.Check(cmd.Context(), url)
			if err != nil {
				return err
			}
			return writeFindings(cmd.OutOrStdout(), storeopen.Name(url), findings, asJSON)
		},
	}
	store.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	check.AddCommand(store, checkServiceCommand())
	return check
}

// writeFindings prints what was found, and is errReported if something fails.
func writeFindings(w io.Writer, store string, findings []storeopen.Finding, asJSON bool) error {
	failing := slices.ContainsFunc(findings, func(f storeopen.Finding) bool { return f.Level == storeopen.Failing })
	if asJSON {
		report := struct {
			Store    string              `json:"store"`
			OK       bool                `json:"ok"`
			Findings []storeopen.Finding `json:"findings"`
		}{store, !failing, findings}
		if err := writeJSON(w, report); err != nil {
			return err
		}
	} else if err := listFindings(w, findings); err != nil {
		return err
	}
	if failing {
		return errReported
	}
	return nil
}

func listFindings(w io.Writer, findings []storeopen.Finding) error {
	wide := len(slices.MaxFunc(findings, func(a, b storeopen.Finding) int { return cmp.Compare(len(a.Check), len(b.Check)) }).Check)
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-7s  %-*s  %s\n", f.Level, wide, f.Check, f.Says); err != nil {
			return err
		}
		if f.Advice == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%*s  → %s\n", 9+wide, "", f.Advice); err != nil {
			return err
		}
	}
	return nil
}

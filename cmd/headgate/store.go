package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

const storeCheckHelp = `Check whether a Redis, Valkey or memcached server is suitable as a store:
connection, permissions, version, memory limit, persistence, failover, latency.
The check makes a few decisions in a separate namespace, and removes their keys
afterwards.

Without a URL, it checks the store in HEADGATE_STORE. That keeps a password out
of the command line.

The exit status is 1 if the store cannot be used for decisions, or if its
configuration will make decisions fail later.`

// storeCommand returns the command “headgate store”.
func storeCommand() *cobra.Command {
	return commandGroup(&cobra.Command{Use: "store", Short: "Diagnose a store"}, storeCheckCommand("check"))
}

// checkCommand returns the hidden command “headgate check”. Its commands “store” and
// “service” are the names that earlier versions used for “store check” and “service
// check”.
func checkCommand() *cobra.Command {
	check := &cobra.Command{
		Use: "check", Short: "Check a store or a service (see also: config check, store check, service check)", Hidden: true,
	}
	return commandGroup(check, storeCheckCommand("store"), serviceCheckCommand("service"))
}

func storeCheckCommand(name string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   name + " [URL]",
		Short: "Diagnose a Redis, Valkey or memcached server",
		Long:  storeCheckHelp,
		Example: "  headgate store check redis://127.0.0.1:6379\n" +
			"  HEADGATE_STORE=redis://:secret@10.0.0.1 headgate store check --json",
		Args: atMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			url := os.Getenv(service.Variable("store"))
			if len(args) > 0 {
				url = args[0]
			}
			if url == "" {
				return fmt.Errorf("URL is missing; give one such as redis://127.0.0.1:6379, or set %s", service.Variable("store"))
			}
			findings, err := storeopen.Check(cmd.Context(), url)
			if err != nil {
				return err
			}
			return writeFindings(cmd.OutOrStdout(), storeopen.Name(url), findings, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

// writeFindings prints the findings. It returns errReported if one of them has the
// level Failing.
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
	} else if err := listFindings(w, findings, showsColours(w)); err != nil {
		return err
	}
	if failing {
		return errReported
	}
	return nil
}

// listFindings writes the findings as a table of textColumns columns. The text of a
// failure stays on one line, so that it can be searched and copied.
func listFindings(w io.Writer, findings []storeopen.Finding, colours bool) error {
	longest := slices.MaxFunc(findings, func(a, b storeopen.Finding) int { return cmp.Compare(len(a.Check), len(b.Check)) })
	width := len(longest.Check)
	for _, f := range findings {
		entry := findingEntry(f, width)
		if colours {
			entry = coloured(f.Level) + strings.TrimPrefix(entry, string(f.Level))
		}
		if _, err := io.WriteString(w, entry); err != nil {
			return err
		}
	}
	return nil
}

// findingEntry returns the lines of a finding. width is that of the column of checks.
func findingEntry(f storeopen.Finding, width int) string {
	var b strings.Builder
	name := fmt.Sprintf("%-7s  %-*s", f.Level, width, f.Check)
	if f.Level == storeopen.Failing {
		b.WriteString(name + "  " + f.Says + "\n")
	} else {
		writeEntry(&b, name, strings.Fields(f.Says), width+11)
	}
	if f.Advice != "" {
		writeEntry(&b, "", append([]string{"→"}, strings.Fields(f.Advice)...), width+11)
	}
	return b.String()
}

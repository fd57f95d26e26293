package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/admin"
)

// keyCommand returns the command “headgate key”.
func keyCommand() *cobra.Command {
	return commandGroup(
		&cobra.Command{Use: "key", Short: "Inspect or reset a key in a running service", SuggestFor: []string{"keys"}},
		keyInspectCommand(), keyResetCommand(),
	)
}

const keyInspectHelp = `Inspect a key in a running service: which limits apply and why, what is left,
when it resets, open holds and leases. Nothing is consumed. Without --policy,
all policies are listed.

The command uses the admin API. It needs a token with the scope read if the
service has tokens.`

func keyInspectCommand() *cobra.Command {
	var client adminClient
	in := struct {
		Key    string `json:"key"`
		Policy string `json:"policy,omitempty"`
		Holds  int    `json:"holds"`
		After  string `json:"after,omitempty"`
	}{}
	cmd := &cobra.Command{
		Use:        "inspect KEY",
		Short:      "Print the state of a key: what is left, which limits apply, holds",
		Long:       keyInspectHelp,
		Example:    "  headgate key inspect acme\n  headgate key inspect acme --policy api --json",
		SuggestFor: []string{"show", "get", "state", "status", "peek"},
		Args:       keyArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Key = args[0]
			for {
				var out admin.Inspected
				printed, err := client.ask(cmd, "/admin/v1/keys/inspect", in, &out)
				if err != nil || printed {
					return err
				}
				for i := range out.Policies {
					printKey(cmd.OutOrStdout(), &out.Policies[i])
				}
				if in.After = out.Next; in.After == "" {
					return nil
				}
			}
		},
	}
	cmd.Flags().StringVar(&in.Policy, "policy", "", "name of the `policy`; if empty, all policies")
	cmd.Flags().IntVar(&in.Holds, "holds", 20, "maximum number of holds and leases to list per limit")
	setGroup(cmd.Flags(), "Key", "policy", "holds")
	client.flags(cmd)
	return cmd
}

// keyArgument requires one argument, which may be empty.
func keyArgument(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("KEY is missing; usage: %s", cmd.UseLine())
	}
	return atMostOneArgument(cmd, args)
}

const keyResetHelp = `Make a key unused in a running service, as if nothing had been spent. Open holds
are removed; units on lease stay spent.

The command uses the admin API. It needs a token with the scope write if the
service has tokens. The change is in the audit, with the name of the token.`

func keyResetCommand() *cobra.Command {
	var client adminClient
	in := struct {
		Key    string `json:"key"`
		Policy string `json:"policy"`
		Reason string `json:"reason,omitempty"`
	}{}
	cmd := &cobra.Command{
		Use:        "reset KEY --policy POLICY",
		Short:      "Make a key unused",
		Long:       keyResetHelp,
		Example:    "  headgate key reset acme --policy api --reason 'ticket 4711'",
		SuggestFor: []string{"clear", "delete", "unblock"},
		Args:       keyArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Key = args[0]; in.Policy == "" {
				return fmt.Errorf("--policy is missing; usage: %s", cmd.UseLine())
			}
			var out admin.Changed
			printed, err := client.ask(cmd, "/admin/v1/keys/reset", in, &out)
			if err != nil || printed {
				return err
			}
			printKey(cmd.OutOrStdout(), &out.After)
			return nil
		},
	}
	cmd.Flags().StringVar(&in.Policy, "policy", "", "name of the `policy`")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`reason` for the audit")
	setGroup(cmd.Flags(), "Key", "policy", "reason")
	client.flags(cmd)
	return cmd
}

// printKey prints the state of a key under one policy.
func printKey(w io.Writer, s *admin.KeyState) {
	decision := "not decided"
	if s.Allowed != nil && *s.Allowed {
		decision = "allowed"
	} else if s.Allowed != nil {
		decision = "denied"
	}
	fmt.Fprintf(w, "%s: %s", s.Policy, decision)
	if s.Mode == "shadow" {
		fmt.Fprint(w, " (shadow mode)")
	}
	fmt.Fprintf(w, ", hash %s\n", s.Hash)
	printSource(w, &s.Source)
	printBan(w, s)
	if s.Error != "" {
		fmt.Fprintf(w, "  error: %s\n", s.Error)
	}
	if s.Degraded != "" {
		fmt.Fprintf(w, "  degraded: %s\n", s.Degraded)
	}
	for i := range s.Limits {
		printLimit(w, &s.Limits[i])
	}
}

// printBan prints whether the key is banned and what ends the ban, or how many denials
// count towards the next one.
func printBan(w io.Writer, s *admin.KeyState) {
	switch b := s.Ban; {
	case b == nil:
	case b.Banned:
		fmt.Fprintf(w, "  banned until %s, ban number %d; a reset of the key ends it\n", b.Until.UTC().Format(time.RFC3339), b.Bans)
	case b.Denials > 0 || b.Bans > 0:
		fmt.Fprintf(w, "  not banned: %s, %s\n", counted(int(b.Denials), "denial counts", "denials count"), counted(int(b.Bans), "earlier ban", "earlier bans"))
	}
}

// printSource prints which limits apply, unless they are those of the policy.
func printSource(w io.Writer, s *admin.Source) {
	switch s.Kind {
	case "file":
		fmt.Fprintf(w, "  limits of the override %s in the configuration\n", s.Target)
	case "store":
		fmt.Fprintf(w, "  limits of the override %s in the store%s\n", s.Target, details(s.Author, s.Reason, s.Until))
	}
}

// details returns the author, the reason and the end of an override.
func details(author, reason string, until time.Time) string {
	text := ""
	if author != "" {
		text += ", by " + author
	}
	if reason != "" {
		text += fmt.Sprintf(", reason %q", reason)
	}
	if !until.IsZero() {
		text += ", until " + until.UTC().Format(time.RFC3339)
	}
	return text
}

func printLimit(w io.Writer, l *admin.LimitState) {
	fmt.Fprintf(w, "  %s %s: %d of %d left", l.Limit, l.Algorithm, l.Remaining, l.Capacity)
	if l.RetryAfter > 0 {
		fmt.Fprintf(w, ", next in %v", time.Duration(l.RetryAfter)*time.Millisecond)
	}
	if l.ResetAfter > 0 {
		fmt.Fprintf(w, ", unused in %v", time.Duration(l.ResetAfter)*time.Millisecond)
	}
	fmt.Fprintln(w)
	printRecords(w, "hold", l.Holds)
	printRecords(w, "lease", l.Leases)
}

// printRecords prints open holds or leases.
func printRecords(w io.Writer, kind string, r *admin.Records) {
	if r == nil || r.Open == 0 {
		return
	}
	fmt.Fprintf(w, "    %s, %s\n", counted(r.Open, "open "+kind, "open "+kind+"s"), counted(int(r.Units), "unit", "units"))
	for _, one := range r.List {
		fmt.Fprintf(w, "      %s: %s until %s\n", one.IDHash, counted(int(one.Units), "unit", "units"), one.Deadline.UTC().Format(time.RFC3339))
	}
	if more := r.Open - len(r.List); more > 0 {
		fmt.Fprintf(w, "      and %d more\n", more)
	}
}

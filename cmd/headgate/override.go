package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/admin"
)

// overrideCommand returns the command “headgate override”.
func overrideCommand() *cobra.Command {
	return commandGroup(
		&cobra.Command{Use: "override", Short: "Change the limits of keys in running services", SuggestFor: []string{"overrides"}},
		overrideSetCommand(), overrideListCommand(), overrideRemoveCommand(),
	)
}

const overrideSetHelp = `Set an override in the store: other limits for some keys of a policy. All
instances apply it within a second. It precedes the overrides in the
configuration file, and keys keep what they have spent.

TARGET is key:TEXT, pattern:acme-*, network:10.0.0.0/8, or policy for all keys
without another override. LIMIT is a limit such as 1000/1m, unlimited, or block.

The command uses the admin API. It needs a token with the scope write if the
service has tokens. The name of the token is the author of the override.`

// newOverride is an override in a request.
type newOverride struct {
	Policy string   `json:"policy"`
	Target string   `json:"target"`
	Limits []string `json:"limits,omitempty"`
	Until  string   `json:"until,omitempty"`
	TTL    string   `json:"ttl,omitempty"`
}

// overrideRequest is a request to set or remove overrides.
type overrideRequest struct {
	Overrides []newOverride `json:"overrides"`
	Reason    string        `json:"reason,omitempty"`
}

func overrideSetCommand() *cobra.Command {
	var client adminClient
	var one newOverride
	var reason string
	cmd := &cobra.Command{
		Use:   "set POLICY TARGET LIMIT...",
		Short: "Set the limits of a key, a pattern, a network or a policy",
		Long:  overrideSetHelp,
		Example: "  headgate override set api key:acme 1000/1m --ttl 2h --reason launch\n" +
			"  headgate override set api network:203.0.113.0/24 block",
		SuggestFor: []string{"add", "create", "put", "block"},
		Args:       atLeastArguments(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if one.TTL != "" && one.Until != "" {
				return errors.New("--ttl and --until exclude each other; use one of them")
			}
			one.Policy, one.Target, one.Limits = args[0], args[1], args[2:]
			var out admin.Overrides
			printed, err := client.ask(cmd, "/admin/v1/overrides/set", overrideRequest{[]newOverride{one}, reason}, &out)
			if err != nil || printed {
				return err
			}
			printOverrides(cmd, &out)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&one.TTL, "ttl", "", "`duration` after which the override ends; if empty, it has no end")
	f.StringVar(&one.Until, "until", "", "`time` at which the override ends, such as 2026-12-01T00:00:00Z")
	f.StringVar(&reason, "reason", "", "`reason`, for other operators and the audit")
	setGroup(f, "Override", "ttl", "until", "reason")
	client.flags(cmd)
	return cmd
}

// atLeastArguments requires n arguments or more.
func atLeastArguments(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return fmt.Errorf("%d of %d arguments; usage: %s", len(args), n, cmd.UseLine())
		}
		return nil
	}
}

const overrideListHelp = `List the overrides in the store, sorted by policy and target. An override of a
policy that is not configured, or that the policy does not accept, has no
effect; the reason is printed.`

func overrideListCommand() *cobra.Command {
	var client adminClient
	var policy string
	cmd := &cobra.Command{
		Use:        "list",
		Short:      "List the overrides in the store",
		Long:       overrideListHelp,
		Example:    "  headgate override list --policy api",
		SuggestFor: []string{"ls", "show", "get"},
		Args:       flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/admin/v1/overrides"
			if cmd.Flags().Changed("policy") {
				path += "?" + url.Values{"policy": {policy}}.Encode()
			}
			var out admin.Overrides
			printed, err := client.ask(cmd, path, nil, &out)
			if err != nil || printed {
				return err
			}
			printOverrides(cmd, &out)
			return nil
		},
	}
	cmd.Flags().StringVar(&policy, "policy", "", "only overrides of this `policy`")
	setGroup(cmd.Flags(), "Override", "policy")
	client.flags(cmd)
	return cmd
}

// printOverrides prints one line for each override.
func printOverrides(cmd *cobra.Command, all *admin.Overrides) {
	w := cmd.OutOrStdout()
	for _, o := range all.Overrides {
		fmt.Fprintf(w, "%s %s: %s%s, set %s\n", o.Policy, o.Target, strings.Join(o.Limits, ", "), details(o.Author, o.Reason, o.Until), o.Created.UTC().Format(time.RFC3339))
		if o.Ignored != "" {
			fmt.Fprintf(w, "  has no effect: %s\n", o.Ignored)
		}
	}
}

const overrideRemoveHelp = `Remove an override from the store. The limits of the configuration apply again
within a second, at all instances. The exit status is 1 if it is
unknown.`

func overrideRemoveCommand() *cobra.Command {
	var client adminClient
	var reason string
	cmd := &cobra.Command{
		Use:        "remove POLICY TARGET",
		Short:      "Remove an override from the store",
		Long:       overrideRemoveHelp,
		Example:    "  headgate override remove api key:acme",
		SuggestFor: []string{"rm", "delete", "unset", "unblock"},
		Args:       atLeastArguments(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return fmt.Errorf("%d arguments, and 2 are accepted; usage: %s", len(args), cmd.UseLine())
			}
			var out admin.Removed
			request := overrideRequest{[]newOverride{{Policy: args[0], Target: args[1]}}, reason}
			printed, err := client.ask(cmd, "/admin/v1/overrides/remove", request, &out)
			if err != nil || printed {
				return err
			}
			if out.Removed == 0 {
				return errors.New("unknown override; headgate override list lists all")
			}
			fmt.Fprintln(cmd.OutOrStdout(), "removed")
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`reason` for the audit")
	setGroup(cmd.Flags(), "Override", "reason")
	client.flags(cmd)
	return cmd
}

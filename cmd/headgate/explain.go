package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/overrides"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
	"github.com/headgate/headgate/lease"
)

const explainHelp = `Explain what headgate serve would decide on a request with this configuration.
The output has the client address, the matching route, the policies that apply,
the key for each policy, and the decision. No units are consumed.

Use --policy and --key to explain a check of one policy instead of a request.

With the store memory://, every key is unused and there are no overrides in
the store, because the memory of another process is not accessible.`

const explainExamples = `  headgate explain --config headgate.yaml --method POST \
      --host shop.example.com --path /login --remote-addr 203.0.113.9
  headgate explain --config headgate.yaml --policy api --key acme`

// explaining has the flags of “headgate explain”.
type explaining struct {
	flags   settingFlags
	method  string
	host    string
	path    string
	headers []string
	remote  string
	policy  string
	key     string
	cost    int64
	asJSON  bool
}

// requestFlags are the flags that describe a request, for which --policy and --key are
// the alternative.
var requestFlags = []string{"method", "host", "path", "header", "remote-addr"}

// explainCommand returns the command “headgate explain”.
func explainCommand() *cobra.Command {
	var x explaining
	cmd := &cobra.Command{
		Use:     "explain",
		Short:   "Explain which policies apply to a request, and the decision",
		Long:    explainHelp,
		Example: explainExamples,
		Args:    flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := exclusive(cmd, "policy", requestFlags...); err != nil {
				return err
			}
			return x.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.method, "method", http.MethodGet, "`method` of the request")
	f.StringVar(&x.host, "host", "", "`host` of the request")
	f.StringVar(&x.path, "path", "/", "`path` of the request, with the query, as sent by the client")
	f.StringArrayVarP(&x.headers, "header", "H", nil, "header `field` of the request as “Name: value”; repeatable")
	f.StringVar(&x.remote, "remote-addr", "127.0.0.1", "IP `address` of the peer: the client or the last proxy")
	setGroup(f, "Request", requestFlags...)
	f.StringVar(&x.policy, "policy", "", "name of the `policy` to check")
	f.StringVar(&x.key, "key", "", "`key` to check")
	setGroup(f, "Check of a policy, instead of a request", "policy", "key")
	x.flags.add(f, "store", "store_budget", "trusted_proxies", "trusted_headers", "enforcement", "instances")
	f.Int64Var(&x.cost, "cost", 1, "cost of the request or check in `units`")
	f.BoolVar(&x.asJSON, "json", false, "print the explanation as JSON")
	setGroup(f, settingGroups[0].heading, "cost", "json")
	return cmd
}

func (x *explaining) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if x.policy == "" && x.key != "" {
		return errors.New("--key is the key of a check and requires --policy")
	}
	sources := x.flags.sources()
	c, err := sources.Load()
	if err != nil {
		return reported(err)
	}
	if sources.Path == "" {
		fmt.Fprintf(stderr, "headgate: no configuration file was given (--config or %s); the defaults apply: no policies, no routes\n",
			config.FileVariable)
	}
	if err := x.checkPolicy(c); err != nil {
		return err
	}
	request, err := x.request(c)
	if err != nil {
		return err
	}
	store, err := storeopen.Open(string(c.Store), &storeopen.Options{Budget: c.StoreBudget, Instances: max(1, c.Instances), Volatile: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	e, err := engine.New(store, c.Engine())
	if err != nil {
		return reported(c.Refused(err))
	}
	stored := overrides.New(&overrides.Options{Store: store, Engine: e, Log: slog.New(slog.DiscardHandler)})
	if stored.Load(ctx); stored.Status().Err != nil {
		fmt.Fprintln(stderr, "headgate: the store is not available; overrides in the store are not shown")
	}
	result, err := x.explain(ctx, c, e.ActiveConfig(), request)
	if err != nil {
		return err
	}
	if x.asJSON {
		return writeJSON(stdout, result)
	}
	return result.print(stdout, request)
}

// maxListedPolicies is the maximum number of policies for which an error lists all
// names. With more policies, the error refers to “headgate config print”.
const maxListedPolicies = 10

// checkPolicy returns an error if the configuration does not have the policy that
// --policy names.
func (x *explaining) checkPolicy(c *config.Config) error {
	names := slices.Sorted(maps.Keys(c.Policies))
	if x.policy == "" || slices.Contains(names, x.policy) {
		return nil
	}
	meant := suggest.Nearest(x.policy, names)
	switch {
	case meant != "":
		return fmt.Errorf("unknown policy %q; did you mean %q?", x.policy, meant)
	case len(names) == 0:
		return fmt.Errorf("unknown policy %q; the configuration has no policies", x.policy)
	case len(names) > maxListedPolicies:
		return fmt.Errorf("unknown policy %q; 'headgate config print' lists the %d policies", x.policy, len(names))
	}
	return fmt.Errorf("unknown policy %q; the configuration has %s", x.policy, strings.Join(names, ", "))
}

// request returns the request that is described by the flags.
func (x *explaining) request(c *config.Config) (*routing.Request, error) {
	header := make(http.Header)
	for _, field := range x.headers {
		name, value, ok := strings.Cut(field, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header %q: write it as “Name: value”", field)
		}
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	clients, err := clientaddr.New(&clientaddr.Options{TrustedProxies: c.Proxies(), Warn: func(string) {}})
	if err != nil {
		return nil, err
	}
	peer := x.remote
	if _, err := netip.ParseAddr(peer); err == nil {
		peer = net.JoinHostPort(peer, "0")
	}
	client := clients.AddrOf(peer, header)
	if !client.IsValid() {
		return nil, fmt.Errorf("--remote-addr %q is not an IP address such as 203.0.113.9", x.remote)
	}
	path, query, _ := strings.Cut(x.path, "?")
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("--path %q does not begin with a slash; pass the host with --host", x.path)
	}
	host := cmp.Or(x.host, header.Get("Host"))
	return &routing.Request{Method: x.method, Host: host, Path: path, RawQuery: query, Header: header, ClientAddr: client}, nil
}

// explain reports what each policy that applies to the request would decide, and what
// all of them together would decide. It consumes no units.
func (x *explaining) explain(
	ctx context.Context, c *config.Config, active *engine.ActiveConfig, r *routing.Request,
) (*explanation, error) {
	result := &explanation{
		Policies: []explainedPolicy{}, Enforcement: string(c.Enforcement), Store: storeopen.Name(string(c.Store)),
		Allowed: true, DeniedBy: []string{},
	}
	policyKeys := []routing.PolicyKey{{Policy: x.policy, Key: x.key}}
	if x.policy == "" {
		result.Client = r.ClientAddr.String()
		selected, err := active.Routes().Select(nil, "", r)
		if err != nil {
			result.Allowed, result.Refused = false, err.Error()
			return result, nil
		}
		policyKeys = selected
		for _, i := range active.Routes().AppendRoutes(nil, r) {
			result.Routes = append(result.Routes, explainedRoute{i, active.Routes().Route(i).String()})
		}
	}
	var checks []engine.Check
	for _, pk := range policyKeys {
		check := engine.Check{Policy: pk.Policy, Key: pk.Key, Cost: x.cost, Composed: x.policy == ""}
		checks = append(checks, check)
		one, err := explainPolicy(ctx, c, active, check)
		if err != nil {
			return nil, err
		}
		result.Policies = append(result.Policies, *one)
	}
	if len(checks) == 0 {
		return result, nil
	}
	var a engine.Answer
	if err := active.Decide(ctx, headgate.Peek, checks, &a); err != nil {
		return nil, err
	}
	result.Allowed, result.RetryAfter, result.Degraded = a.Allowed, millis(a.RetryAfter), a.Degraded != headgate.ReasonNone
	result.DeniedBy = append(result.DeniedBy, a.DeniedBy...)
	return result, nil
}

// algorithmsOf returns the algorithms of a policy's limits. They differ only if the
// policy names no algorithm and has limits with a calendar and limits with a period.
func algorithmsOf(rules []*engine.Rule) string {
	var names []string
	for _, r := range rules {
		if name := string(r.Algorithm); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// explainLease reports what a lease means for a rule, or nil if the rule has none.
func explainLease(c *config.Config, r *engine.Rule) *explainedLease {
	if !r.Lease.Enabled() || r.Limit.IsUnlimited() || r.Limit.IsBlocked() {
		return nil
	}
	if !storeopen.Networked(string(c.Store)) {
		return &explainedLease{Reason: "the store is in memory"}
	}
	if r.Algorithm.OnlyHolds() {
		return &explainedLease{Reason: "any instance may end a hold, so the store decides each hold"}
	}
	e := lease.EffectOf(headgate.Rule{Limit: r.Limit, Algorithm: r.Algorithm, Lease: r.Lease})
	return &explainedLease{e.Reason, e.Units, r.Lease.Share, millis(e.TTL), e.MinCalls, e.MaxCalls}
}

// explainPolicy reports what one policy would decide. It consumes no units.
func explainPolicy(
	ctx context.Context, c *config.Config, active *engine.ActiveConfig, check engine.Check,
) (*explainedPolicy, error) {
	var a engine.Answer
	if err := active.Decide(ctx, headgate.Peek, []engine.Check{check}, &a); err != nil {
		return nil, err
	}
	p := c.Policies[check.Policy]
	override, inStore := active.AppliedOverride(check.Policy, check.Key)
	result := &explainedPolicy{
		Policy: check.Policy, Algorithm: algorithmsOf(a.Rules), KeyBy: p.Key.String(), Key: check.Key,
		Override: override != "", OverriddenBy: override, OverrideInStore: inStore,
		Enforced: !a.Unenforced, Allowed: a.Allowed, shadow: len(a.Shadows) > 0,
	}
	if result.shadow {
		result.Allowed, result.failed = a.Shadows[0].Decision.Allowed, a.Shadows[0].Err != nil
	}
	for i, r := range a.Rules {
		d := a.Decisions[i]
		result.Limits = append(result.Limits, explainedLimit{r.Limit.String(), d.Limit, d.Remaining, millis(d.ResetAfter), explainLease(c, r)})
	}
	return result, nil
}

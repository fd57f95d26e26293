package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

const explainHelp = `Explain takes a request apart as headgate serve would with this configuration: whose it is, which route it takes, under which policies
it is, whose budget of each it spends, and what would be answered now. It only asks, and spends nothing.

State in memory is that of the process that holds it, so that with such a store every key looks as if never used.`

// explaining is what “headgate explain” is told.
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

// explainCommand is “headgate explain”.
func explainCommand() *cobra.Command {
	var x explaining
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say which policies a request is under, and what would be answered",
		Long:  explainHelp,
		Example: "  headgate explain --config headgate.yaml --method POST --host shop.example.com --path /login --remote-addr 203.0.113.9\n" +
			"  headgate explain --config headgate.yaml --policy api --key acme",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return x.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	x.flags.add(f, "store", "store_budget", "trusted_proxies", "enforcement", "instances")
	f.StringVar(&x.method, "method", http.MethodGet, "the request's `method`")
	f.StringVar(&x.host, "host", "", "its `host`")
	f.StringVar(&x.path, "path", "/", "its `path`, as the client writes it")
	f.StringArrayVarP(&x.headers, "header", "H", nil, "a header `field`, “Name: value”; can be repeated")
	f.StringVar(&x.remote, "remote-addr", "127.0.0.1", "the `address` that it comes from")
	f.StringVar(&x.policy, "policy", "", "in place of a request: a check of this `policy`")
	f.StringVar(&x.key, "key", "", "the `key` of that check")
	f.Int64Var(&x.cost, "cost", 1, "what it costs, in `units`")
	f.BoolVar(&x.asJSON, "json", false, "print JSON")
	for _, ofARequest := range []string{"method", "host", "path", "header", "remote-addr"} {
		cmd.MarkFlagsMutuallyExclusive("policy", ofARequest)
	}
	return cmd
}

func (x *explaining) run(ctx context.Context, w io.Writer) (err error) {
	if x.policy == "" && x.key != "" {
		return errors.New("--key is the key of a check: name its --policy, too")
	}
	sources := x.flags.sources()
	c, err := sources.Load()
	if err != nil {
		return reported(err)
	}
	request, err := x.request(c)
	if err != nil {
		return err
	}
	store, err := storeopen.Open(string(c.Store), &storeopen.Options{Budget: c.StoreBudget, Instances: max(1, c.Instances)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	e, err := engine.New(store, c.Engine())
	if err != nil {
		return reported(c.Refused(err))
	}
	found, err := x.explain(ctx, c, e.ActiveConfig(), request)
	if err != nil {
		return err
	}
	if x.asJSON {
		return writeJSON(w, found)
	}
	return found.print(w, request)
}

// request is the one that the flags describe.
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
		return nil, fmt.Errorf("--remote-addr %q is no address; write one such as 203.0.113.9", x.remote)
	}
	path, query, _ := strings.Cut(x.path, "?")
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("--path %q does not begin with a slash; the host goes into --host", x.path)
	}
	host := cmp.Or(x.host, header.Get("Host"))
	return &routing.Request{Method: x.method, Host: host, Path: path, RawQuery: query, Header: header, ClientAddr: client}, nil
}

// explain asks what holds for the request, policy by policy and then all together.
func (x *explaining) explain(ctx context.Context, c *config.Config, holds *engine.ActiveConfig, r *routing.Request) (*explanation, error) {
	found := &explanation{
		Policies: []explainedPolicy{}, Enforcement: string(c.Enforcement), Store: storeopen.Name(string(c.Store)), Allowed: true, DeniedBy: []string{},
	}
	charges := []routing.PolicyKey{{Policy: x.policy, Key: x.key}}
	if x.policy == "" {
		found.Client = r.ClientAddr.String()
		plain, lenient := holds.Routes().Match(r)
		for _, i := range []int{plain, lenient} {
			if i != routing.None && (len(found.Routes) == 0 || found.Routes[0].Index != i) {
				found.Routes = append(found.Routes, explainedRoute{i, holds.Routes().Route(i).String()})
			}
		}
		charges = holds.Routes().AppendPolicyKeys(nil, r)
	}
	var checks []engine.Check
	for _, charge := range charges {
		check := engine.Check{Policy: charge.Policy, Key: charge.Key, Cost: x.cost}
		checks = append(checks, check)
		one, err := explainPolicy(ctx, c, holds, check)
		if err != nil {
			return nil, err
		}
		found.Policies = append(found.Policies, *one)
	}
	if len(checks) == 0 {
		return found, nil
	}
	var a engine.Answer
	if err := holds.Decide(ctx, headgate.Peek, checks, &a); err != nil {
		return nil, err
	}
	found.Allowed, found.RetryAfter, found.Degraded = a.Allowed, millis(a.RetryAfter), a.Degraded != headgate.ReasonNone
	found.DeniedBy = append(found.DeniedBy, a.DeniedBy...)
	return found, nil
}

func explainPolicy(ctx context.Context, c *config.Config, holds *engine.ActiveConfig, check engine.Check) (*explainedPolicy, error) {
	var a engine.Answer
	if err := holds.Decide(ctx, headgate.Peek, []engine.Check{check}, &a); err != nil {
		return nil, err
	}
	p := c.Policies[check.Policy]
	_, override := p.Overrides["key:"+check.Key]
	found := &explainedPolicy{
		Policy: check.Policy, Algorithm: string(p.Algorithm), KeyBy: p.Key.String(), Key: check.Key, Override: override,
		Enforced: !a.Unenforced, Allowed: a.Allowed, watches: len(a.Shadows) > 0,
	}
	if found.watches {
		found.Allowed, found.undecided = a.Shadows[0].Decision.Allowed, a.Shadows[0].Err != nil
	}
	for i, r := range a.Rules {
		d := a.Decisions[i]
		found.Limits = append(found.Limits, explainedLimit{r.Limit.String(), d.Limit, d.Remaining, millis(d.ResetAfter)})
	}
	return found, nil
}

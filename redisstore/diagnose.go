package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/diagnosis"
)

// Finding is the result of one check of [Diagnose]. It contains no password.
type Finding = diagnosis.Finding

// Level is the severity of a [Finding].
type Level = diagnosis.Level

// The levels of a finding.
const (
	Fine    = diagnosis.Fine
	Warning = diagnosis.Warning // decisions work, at a cost that the finding names
	Failing = diagnosis.Failing // decisions fail, or will fail
)

// Diagnose looks at the Redis of a URL, as [Open] takes it, and says what is wrong with it. It makes a few decisions in a namespace
// of its own, which it removes, and changes nothing else. What the user may not look at is said, too. The error is that of a URL that
// cannot be read; a server that cannot be reached is a finding. It takes some 30 round trips, and no longer than ctx.
func Diagnose(ctx context.Context, rawURL string) ([]Finding, error) {
	t, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o := Options{Timeout: diagnoseTimeout}
	if err := t.apply(&o); err != nil {
		return nil, err
	}
	option, err := t.client()
	if err != nil {
		return nil, err
	}
	o.Namespace, o.Layout = "check-"+rand.Text(), LayoutHeadgate
	c := newConnecting(t, option)
	s, err := New(c, &o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // what could be wrong with that was found by then
	d := &diagnoser{kind: t.kind, store: s}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	d.run(ctx, c)
	return d.findings, nil
}

// diagnoseTimeout bounds the whole of it, if ctx does not.
const diagnoseTimeout = 20 * time.Second

// diagnoser collects findings.
type diagnoser struct {
	kind     kind
	store    *Store
	findings []Finding
}

func (d *diagnoser) add(check string, level Level, says, advice string) {
	d.findings = append(d.findings, Finding{Check: check, Level: level, Says: says, Advice: advice})
}

// failed adds the finding of a failed check.
func (d *diagnoser) failed(check string, level Level, err error) {
	d.findings = append(d.findings, diagnosis.OfError(check, level, err, "headgate: redis: "))
}

func (d *diagnoser) run(ctx context.Context, c *connecting) {
	client, err := c.get(ctx)
	if err != nil {
		d.failed("connection", Failing, err)
		return
	}
	nodes := client.Nodes()
	if d.kind == cluster {
		d.cluster(ctx, nodes)
	}
	d.nodes(ctx, nodes)
	if d.decisions(ctx) {
		d.latency(ctx)
	}
}

// nodes adds what is found on every node that takes writes, once where all say the same.
func (d *diagnoser) nodes(ctx context.Context, nodes map[string]rueidis.Client) {
	found := map[Finding][]string{}
	var order []Finding
	looked := 0
	for address, client := range nodes {
		n := look(ctx, client)
		if d.kind == cluster && n.about["role"] == "slave" {
			continue // its primary says what holds
		}
		looked++
		for _, f := range n.findings() {
			if found[f] == nil {
				order = append(order, f)
			}
			found[f] = append(found[f], address)
		}
	}
	for _, f := range order {
		if on := found[f]; len(on) < looked {
			slices.Sort(on)
			f.Says = strings.Join(on, ", ") + ": " + f.Says
		}
		d.findings = append(d.findings, f)
	}
}

// cluster adds whether all slots are served, as the nodes see it: one that disagrees is enough.
func (d *diagnoser) cluster(ctx context.Context, nodes map[string]rueidis.Client) {
	var last Finding
	for address, client := range nodes {
		text, err := client.Do(ctx, client.B().ClusterInfo().Build()).ToString()
		if err != nil {
			d.failed("cluster", Warning, storeError(err))
			return
		}
		if last = clusterFinding(fields(text)); last.Level != Fine {
			last.Says = address + ": " + last.Says
			break
		}
	}
	d.findings = append(d.findings, last)
}

func clusterFinding(about map[string]string) Finding {
	switch {
	case about["cluster_slots_assigned"] != "16384":
		return Finding{
			Check: "cluster", Level: Failing, Says: "only " + about["cluster_slots_assigned"] + " of 16384 slots are assigned: keys of the others cannot be decided",
			Advice: "redis-cli --cluster check, then fix",
		}
	case about["cluster_state"] != "ok" || about["cluster_slots_fail"] != "0":
		return Finding{
			Check: "cluster", Level: Failing, Says: "its state is " + about["cluster_state"] + ", and " + about["cluster_slots_fail"] + " slots have no primary that answers",
			Advice: "see CLUSTER NODES",
		}
	}
	return Finding{Check: "cluster", Level: Fine, Says: "all slots are served, by " + about["cluster_size"] + " primaries"}
}

// decisions makes one of each kind under every algorithm, and takes them back. It reports whether decisions can be made.
func (d *diagnoser) decisions(ctx context.Context) bool {
	for _, a := range algo.All() {
		if err := d.decide(ctx, a.Name); err != nil {
			d.failed("decisions", Failing, err)
			return false
		}
	}
	d.add("decisions", Fine, fmt.Sprintf("scripts run: %d algorithms decided, and what they wrote is removed", len(algo.All())), "")
	return true
}

func (d *diagnoser) decide(ctx context.Context, name headgate.Algorithm) error {
	b, err := d.store.Bind(headgate.Rule{Scope: "check", Name: "check", Limit: headgate.Limit{Rate: 10, Period: time.Minute}, Algorithm: name})
	if err != nil {
		return err
	}
	for _, verb := range []headgate.Verb{headgate.Take, headgate.Peek, headgate.Refund, headgate.Take, headgate.Reset} {
		if _, err := b.Apply(ctx, headgate.StoreClock, "key", verb, 1); err != nil {
			return err
		}
	}
	return nil
}

const (
	latencyRounds = 21
	slowDecision  = 10 * time.Millisecond // a fifth of the budget that a decision has by default
)

// latency adds how long a decision takes.
func (d *diagnoser) latency(ctx context.Context) {
	b, err := d.store.Bind(headgate.Rule{Scope: "check", Name: "check", Limit: headgate.Limit{Rate: 1000, Period: time.Minute}})
	if err != nil {
		return
	}
	took := make([]time.Duration, latencyRounds)
	for i := range took {
		start := time.Now()
		if _, err := b.Apply(ctx, headgate.StoreClock, "key", headgate.Peek, 1); err != nil {
			d.failed("latency", Failing, err)
			return
		}
		took[i] = time.Since(start)
	}
	f, median := diagnosis.OfLatency(took)
	if median > slowDecision {
		f.Level, f.Advice = Warning, "keep Redis near, and the budget of a decision well above it"
	}
	d.findings = append(d.findings, f)
}

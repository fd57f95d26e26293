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
	Warning = diagnosis.Warning // decisions work, but have a disadvantage that the finding names
	Failing = diagnosis.Failing // decisions fail now, or will fail later
)

// Diagnose checks the Redis servers of a URL, which has the syntax of [Open]. It makes
// a few decisions in a namespace of its own, removes these keys, and changes nothing
// else. It also reports what the user has no permission to read. Diagnose returns an
// error only for an invalid URL; an unreachable server is a finding. It needs about 30
// round trips. It returns when ctx ends or, if ctx has no deadline, after at most 20 s.
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
	c := newLazyClient(t, option)
	s, err := New(c, &o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // an error would also be a finding
	d := &diagnoser{kind: t.kind, store: s}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	d.run(ctx, c)
	return d.findings, nil
}

// diagnoseTimeout is the maximum duration of all checks together if ctx has no
// deadline.
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

// failed adds a finding for a check that failed with err.
func (d *diagnoser) failed(check string, level Level, err error) {
	d.findings = append(d.findings, diagnosis.OfError(check, level, err, "headgate: redis: "))
}

func (d *diagnoser) run(ctx context.Context, c *lazyClient) {
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

// nodes adds the findings for every node that accepts writes. If all nodes have the
// same finding, it is added once, without addresses.
func (d *diagnoser) nodes(ctx context.Context, nodes map[string]rueidis.Client) {
	found := map[Finding][]string{}
	var order []Finding
	inspected := 0
	for address, client := range nodes {
		n := inspect(ctx, client)
		if d.kind == cluster && n.info["role"] == "slave" {
			continue // the finding of the replica's primary is sufficient
		}
		inspected++
		for _, f := range n.findings() {
			if found[f] == nil {
				order = append(order, f)
			}
			found[f] = append(found[f], address)
		}
	}
	for _, f := range order {
		if on := found[f]; len(on) < inspected {
			slices.Sort(on)
			f.Says = strings.Join(on, ", ") + ": " + f.Says
		}
		d.findings = append(d.findings, f)
	}
}

// cluster adds the finding about whether all hash slots are served. If one node reports
// a failure, it is a failure.
func (d *diagnoser) cluster(ctx context.Context, nodes map[string]rueidis.Client) {
	var last Finding
	for address, client := range nodes {
		text, err := client.Do(ctx, client.B().ClusterInfo().Build()).ToString()
		if err != nil {
			d.failed("cluster", Warning, classify(err))
			return
		}
		if last = clusterFinding(fields(text)); last.Level != Fine {
			last.Says = address + ": " + last.Says
			break
		}
	}
	d.findings = append(d.findings, last)
}

func clusterFinding(info map[string]string) Finding {
	switch {
	case info["cluster_slots_assigned"] != "16384":
		return Finding{
			Check: "cluster", Level: Failing, Says: "only " + info["cluster_slots_assigned"] + " of 16384 slots are assigned: decisions for keys in the other slots fail",
			Advice: "run redis-cli --cluster check, then redis-cli --cluster fix",
		}
	case info["cluster_state"] != "ok" || info["cluster_slots_fail"] != "0":
		return Finding{
			Check: "cluster", Level: Failing, Says: "the cluster state is " + info["cluster_state"] + ", and " + info["cluster_slots_fail"] + " slots have no reachable primary",
			Advice: "see CLUSTER NODES",
		}
	}
	return Finding{Check: "cluster", Level: Fine, Says: "all slots are served, by " + info["cluster_size"] + " primaries"}
}

// decisions tests all operations with every algorithm and resets the keys. It adds a
// finding and reports whether all operations work.
func (d *diagnoser) decisions(ctx context.Context) bool {
	for _, a := range algo.Rates() {
		if err := d.decide(ctx, a.Name); err != nil {
			d.failed("decisions", Failing, err)
			return false
		}
	}
	d.add("decisions", Fine, fmt.Sprintf("scripts work: tested %d algorithms and removed the test keys", len(algo.Rates())), "")
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
	slowDecision  = 10 * time.Millisecond // 1/5 of the default time budget of a decision
)

// latency adds the finding about the latency of decisions.
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
		f.Level, f.Advice = Warning, "place Redis closer, and set the time budget of a decision well above this latency"
	}
	d.findings = append(d.findings, f)
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// explanation is the result of “headgate explain”, in the structure of the JSON output.
type explanation struct {
	Client      string            `json:"client,omitempty"`
	Routes      []explainedRoute  `json:"routes,omitempty"`
	Policies    []explainedPolicy `json:"policies"`
	Enforcement string            `json:"enforcement"`
	Store       string            `json:"store"`
	Allowed     bool              `json:"allowed"`
	RetryAfter  int64             `json:"retry_after_ms"`
	DeniedBy    []string          `json:"denied_by"`
	Degraded    bool              `json:"degraded"`
	// Refused is the reason why the service responds with 400 and makes no decision.
	Refused string `json:"refused,omitempty"`
}

type explainedRoute struct {
	Index int    `json:"index"`
	Match string `json:"match"`
}

type explainedPolicy struct {
	Policy    string `json:"policy"`
	Algorithm string `json:"algorithm"`
	KeyBy     string `json:"key_by"`
	Key       string `json:"key"`
	Override  bool   `json:"override"`
	// OverriddenBy is the override that applies to the key, such as key:acme.
	OverriddenBy string `json:"overridden_by,omitempty"`
	// OverrideInStore is true if the override is in the store and not in the file.
	OverrideInStore bool `json:"override_in_store,omitempty"`
	Enforced     bool             `json:"enforced"`
	Allowed      bool             `json:"allowed"` // decision of this policy alone, even if it is in shadow mode
	Limits       []explainedLimit `json:"limits"`
	shadow       bool             // the policy is in shadow mode, so it does not affect the overall decision
	failed       bool             // the policy is in shadow mode, and the store returned an error
}

type explainedLimit struct {
	Limit      string `json:"limit"`
	AtOnce     int64  `json:"at_once"`
	Remaining  int64  `json:"remaining"`
	ResetAfter int64  `json:"reset_after_ms"`
	// Lease is what a lease of the policy means for the limit; nil without a lease.
	Lease *explainedLease `json:"lease,omitempty"`
}

// explainedLease is what a lease means for a limit; see [lease.Effect].
type explainedLease struct {
	Reason   string `json:"not_leased,omitempty"` // why the limit is not leased; all other fields are then 0
	Units    int64  `json:"units"`
	Share    int    `json:"share_percent"`
	TTL      int64  `json:"ttl_ms"`
	MinCalls int64  `json:"min_store_calls_per_second"`
	MaxCalls int64  `json:"max_store_calls_per_second"`
}

// print writes what the lease means for a limit with the given capacity.
func (l *explainedLease) print(b *strings.Builder, capacity int64) {
	if l.Reason != "" {
		explained(b, "  lease", "no effect: "+l.Reason)
		return
	}
	ttl := waitOf(l.TTL)
	explained(b, "  lease", fmt.Sprintf("up to %d units (%d%% of %d) for %s, for all processes together", l.Units, l.Share, capacity, ttl))
	explained(b, "  saves", fmt.Sprintf("a process makes %d to %d calls to the store per second for a key with many requests, not one for each request",
		l.MinCalls, l.MaxCalls))
	explained(b, "  costs", fmt.Sprintf("after a crash, up to %d units are missing for %s", l.Units, ttl))
}

// millis returns a duration in whole milliseconds, rounded up.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// explainColumn is the column in which the texts of “headgate explain” begin, from 0.
const explainColumn = 10

// print writes the explanation as text. r is the explained request; it is not used if a
// check of one policy was explained.
func (e *explanation) print(w io.Writer, r *routing.Request) error {
	var b strings.Builder
	if e.Client != "" { // a request was explained, not a check
		e.printRequest(&b, r)
	}
	for i := range e.Policies {
		e.Policies[i].print(&b)
	}
	explained(&b, "answer", e.decision())
	_, err := io.WriteString(w, b.String())
	return err
}

// explained writes one line of the explanation, wrapped. It keeps all spaces of a key.
func explained(b *strings.Builder, name, text string) {
	writeEntry(b, name, strings.Split(text, " "), explainColumn)
}

func (e *explanation) printRequest(b *strings.Builder, r *routing.Request) {
	explained(b, "request", fmt.Sprintf("%s %s%s", r.Method, r.Host, r.Path))
	explained(b, "client", e.Client)
	for _, route := range e.Routes {
		explained(b, "route", fmt.Sprintf("routes[%d]: %s", route.Index, route.Match))
	}
	if e.Refused != "" {
		return
	}
	if len(e.Routes) == 0 {
		explained(b, "route", "none: the request is allowed")
	} else if len(e.Policies) == 0 {
		explained(b, "policies", "none: the request is allowed")
	}
}

func (p *explainedPolicy) print(b *strings.Builder) {
	explained(b, "policy", p.Policy+", "+p.Algorithm)
	key := fmt.Sprintf("%q (%s)", p.Key, p.KeyBy)
	if p.Override {
		key += ", to which the override " + p.OverriddenBy + " "
		if p.OverrideInStore {
			key += "in the store "
		}
		key += "applies"
	}
	explained(b, "  key", key)
	for _, l := range p.Limits {
		left := fmt.Sprintf("%s: %d of %d left", l.Limit, l.Remaining, l.AtOnce)
		if l.ResetAfter > 0 {
			left += ", unused again in " + waitOf(l.ResetAfter)
		}
		explained(b, "  limit", left)
		if l.Lease != nil {
			l.Lease.print(b, l.AtOnce)
		}
	}
	if p.isPartlyLeased() {
		explained(b, "  note", "a limit without a lease takes a call to the store for each request")
	}
	switch {
	case !p.shadow:
	case p.failed:
		b.WriteString("  shadow mode: the store could not decide\n")
	case p.Allowed:
		b.WriteString("  shadow mode: it would allow the request\n")
	default:
		b.WriteString("  shadow mode: it would deny the request\n")
	}
}

// isPartlyLeased reports whether some limits of the policy are leased, and others are
// not.
func (p *explainedPolicy) isPartlyLeased() bool {
	isLeased := func(l explainedLimit) bool { return l.Lease != nil && l.Lease.Reason == "" }
	isNot := func(l explainedLimit) bool { return !isLeased(l) }
	return slices.ContainsFunc(p.Limits, isLeased) && slices.ContainsFunc(p.Limits, isNot)
}

// decision returns the text of the overall decision.
func (e *explanation) decision() string {
	note := ""
	switch {
	case e.Enforcement != "on":
		note = " (enforcement is " + e.Enforcement + ")"
	case e.Degraded:
		note = " (the store is unavailable)"
	case e.Store == "memory" && len(e.Policies) > 0:
		note = " (store in memory: counters of other processes are not visible)"
	}
	switch {
	case e.Refused != "":
		return "refused with 400: " + e.Refused
	case e.Allowed:
		return "allowed" + note
	case e.isBlocked():
		return "denied by " + strings.Join(e.DeniedBy, ", ") + "; the key is blocked" + note
	case e.RetryAfter == 0:
		return "denied by " + strings.Join(e.DeniedBy, ", ") + "; the cost exceeds the limit, so a retry cannot succeed" + note
	}
	return "denied by " + strings.Join(e.DeniedBy, ", ") + "; allowed again in " + waitOf(e.RetryAfter) + note
}

// isBlocked reports whether an enforced policy denies every request of the key.
func (e *explanation) isBlocked() bool {
	return slices.ContainsFunc(e.Policies, func(p explainedPolicy) bool {
		return !p.Allowed && !p.shadow && len(p.Limits) == 1 && p.Limits[0].Limit == headgate.Blocked().String()
	})
}

func waitOf(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

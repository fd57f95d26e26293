package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// explanation is what was found, as JSON prints it.
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
}

type explainedRoute struct {
	Index int    `json:"index"`
	Match string `json:"match"`
}

type explainedPolicy struct {
	Policy    string           `json:"policy"`
	Algorithm string           `json:"algorithm"`
	KeyBy     string           `json:"key_by"`
	Key       string           `json:"key"`
	Override  bool             `json:"override"`
	Enforced  bool             `json:"enforced"`
	Allowed   bool             `json:"allowed"` // whether it would admit the request, had it a say
	Limits    []explainedLimit `json:"limits"`
	watches   bool             // it has no say, and was asked what it would have said
	undecided bool             // and the store could not say
}

type explainedLimit struct {
	Limit      string `json:"limit"`
	AtOnce     int64  `json:"at_once"`
	Remaining  int64  `json:"remaining"`
	ResetAfter int64  `json:"reset_after_ms"`
}

// millis is a wait in whole milliseconds, rounded up.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// print writes the explanation of a request, or of the check of a policy, for people.
func (found *explanation) print(w io.Writer, r *routing.Request) error {
	var b strings.Builder
	if found.Client != "" { // of a request
		fmt.Fprintf(&b, "request   %s %s%s\nclient    %s\n", r.Method, r.Host, r.Path, found.Client)
		for _, route := range found.Routes {
			fmt.Fprintf(&b, "route     routes[%d]: %s\n", route.Index, route.Match)
		}
		if len(found.Routes) == 0 {
			b.WriteString("route     none: the request is let pass\n")
		} else if len(found.Policies) == 0 {
			b.WriteString("policies  none: the request is let pass\n")
		}
	}
	for i := range found.Policies {
		found.Policies[i].print(&b)
	}
	b.WriteString(found.verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *explainedPolicy) print(b *strings.Builder) {
	fmt.Fprintf(b, "policy    %s, %s\n", p.Policy, p.Algorithm)
	fmt.Fprintf(b, "  key     %q (%s)", p.Key, p.KeyBy)
	if p.Override {
		b.WriteString(", which has limits of its own")
	}
	b.WriteString("\n")
	for _, l := range p.Limits {
		fmt.Fprintf(b, "  limit   %s: %d of %d left", l.Limit, l.Remaining, l.AtOnce)
		if l.ResetAfter > 0 {
			fmt.Fprintf(b, ", as if never used in %s", waitOf(l.ResetAfter))
		}
		b.WriteString("\n")
	}
	switch {
	case !p.watches:
	case p.undecided:
		b.WriteString("  watches only, and could not decide\n")
	case p.Allowed:
		b.WriteString("  watches only, and would admit it\n")
	default:
		b.WriteString("  watches only, and would deny it\n")
	}
}

// verdict is the last line.
func (found *explanation) verdict() string {
	note := ""
	switch {
	case found.Enforcement != "on":
		note = " (enforcement is " + found.Enforcement + ")"
	case found.Degraded:
		note = " (the store is away)"
	case found.Store == "memory" && len(found.Policies) > 0:
		note = " (of a store in memory: what other processes hold there is not seen)"
	}
	switch {
	case found.Allowed:
		return "answer    allowed" + note + "\n"
	case found.RetryAfter == 0:
		return "answer    denied by " + strings.Join(found.DeniedBy, ", ") + "; the cost is above the limit, so no wait helps" + note + "\n"
	}
	return "answer    denied by " + strings.Join(found.DeniedBy, ", ") + "; allowed again in " + waitOf(found.RetryAfter) + note + "\n"
}

func waitOf(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

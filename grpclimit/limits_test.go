package grpclimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

// planLimits are the limits of calls, by the metadata “plan”.
var planLimits = map[string][]headgate.Limit{
	"pro": headgate.MustPolicy("20/24h").Limits, "max": headgate.MustPolicy("30/24h", "100/48h").Limits,
	"staff": headgate.MustPolicy("unlimited").Limits, "banned": headgate.MustPolicy("0/s").Limits, "wrong": {{Rate: -1}},
}

func planCharge(limit string) grpclimit.Charge {
	p := policy("api", limit)
	p.Algorithm = headgate.FixedWindow
	return grpclimit.Charge{Policy: p, Key: grpclimit.Global(), Limits: func(ctx context.Context, _ grpclimit.Call) []headgate.Limit {
		md, _ := metadata.FromIncomingContext(ctx)
		if out, ok := metadata.FromOutgoingContext(ctx); ok {
			md = out
		}
		return planLimits[strings.Join(md.Get("plan"), "")]
	}}
}

func withPlan(ctx context.Context, plan string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "plan", plan)
}

// A call has the limits of its plan, and all plans count the same calls.
func TestServerLimitsOfPlans(t *testing.T) {
	t.Parallel()
	w := serve(t, &service{}, newServer(t, nil, planCharge("10/24h")))
	for i, c := range []struct {
		plan   string
		code   codes.Code
		policy string // of the metadata ratelimit-policy
		left   string // of ratelimit
	}{
		{"", codes.OK, `"api";q=10;w=86400`, `"api";r=9;`},
		{"pro", codes.OK, `"api";q=20;w=86400`, `"api";r=18;`},
		{"max", codes.OK, `"api:30/d";q=30;w=86400, "api:100/2d";q=100;w=172800`, `"api:30/d";r=27;`},
		{"staff", codes.OK, "", ""},
		{"banned", codes.ResourceExhausted, "", ""},
		{"wrong", codes.Unavailable, "", ""},
		{"unknown", codes.OK, `"api";q=10;w=86400`, `"api";r=6;`},
	} {
		header, _, err := w.empty(withPlan(t.Context(), c.plan))
		mustCode(t, "plan "+c.plan, err, c.code)
		if got := strings.Join(header.Get("ratelimit-policy"), ""); got != c.policy {
			t.Errorf("call %d, plan %q: got ratelimit-policy %q want %q", i+1, c.plan, got, c.policy)
		}
		if got := strings.Join(header.Get("ratelimit"), ""); !strings.HasPrefix(got, c.left) {
			t.Errorf("call %d, plan %q: got ratelimit %q want %q…", i+1, c.plan, got, c.left)
		}
		if retry, quota := details(err); c.plan == "banned" && (retry != nil || len(quota.GetViolations()) != 1) {
			t.Errorf("a blocked call: got %v, %v want one violation and no wait", retry, quota)
		}
	}
}

// A client waits for the limits of the call's plan.
func TestClientLimitsOfPlans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := serveClient(t, &service{}, newClient(t, nil, planCharge("1/24h")))
		defer w.stop()
		begin := time.Now()
		for _, plan := range []string{"", "pro", "staff"} {
			_, _, err := w.empty(withPlan(t.Context(), plan))
			mustCode(t, "plan "+plan, err, codes.OK)
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("calls within their limits waited for %v", waited)
		}
		_, _, err := w.empty(withPlan(t.Context(), "banned"))
		mustCode(t, "banned", err, codes.ResourceExhausted)
		if !isErr(err, headgate.ErrNeverAllowed) {
			t.Errorf("banned: got %v want ErrNeverAllowed", err)
		}
		ctx, cancel := context.WithTimeout(withPlan(t.Context(), ""), time.Minute)
		defer cancel()
		_, _, err = w.empty(ctx)
		mustCode(t, "the default, which is spent", err, codes.ResourceExhausted)
	})
}

func TestLimitsRequireName(t *testing.T) {
	t.Parallel()
	charge := planCharge("10/s")
	charge.Policy.Name = ""
	_, server := grpclimit.NewServer(memstore.New(nil), nil, charge)
	_, client := grpclimit.NewClient(memstore.New(nil), nil, charge)
	for name, err := range map[string]error{"server": server, "client": client} {
		if !errors.Is(err, grpclimit.ErrInvalidOptions) || !strings.Contains(err.Error(), "MustNamedPolicy") {
			t.Errorf("%s: got %v want ErrInvalidOptions", name, err)
		}
	}
}

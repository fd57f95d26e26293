package grpclimit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/memstore"
)

func TestDenialRetryDelayIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// One unit in 333,333.3… µs: the wait is not a whole number of milliseconds.
		w := serve(t, &service{}, newServer(t, nil, globalCharge(policy("calls", "3/1s"))))
		defer w.stop()
		for range 3 {
			_, _, err := w.empty(t.Context())
			mustCode(t, "within the limit", err, codes.OK)
		}
		_, trailer, err := w.empty(t.Context())
		mustCode(t, "above the limit", err, codes.ResourceExhausted)
		retry, quota := details(err)
		const wait = 333_334 * time.Microsecond
		if got := retry.GetRetryDelay().AsDuration(); got != wait {
			t.Errorf("RetryInfo: got %v want %v", got, wait)
		}
		if v := quota.GetViolations(); len(v) != 1 || v[0].GetSubject() != "calls" || v[0].GetDescription() != "limit exceeded: 3/s" {
			t.Errorf("QuotaFailure: got %v want one violation, by calls", v)
		}
		for name, want := range map[string]string{"retry-after": "1", "grpc-retry-pushback-ms": "334"} {
			if got := trailer.Get(name); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: got %q want %q", name, got, want)
			}
		}
		if q, w := item(t, trailer, "ratelimit-policy", "calls", "q"), item(t, trailer, "ratelimit-policy", "calls", "w"); q != int64(3) || w != int64(1) {
			t.Errorf("ratelimit-policy: got q %v, w %v want 3, 1", q, w)
		}
		if r := item(t, trailer, "ratelimit", "calls", "r"); r != int64(0) {
			t.Errorf("ratelimit: got r %v want 0", r)
		}
		if len(trailer.Get("cache-control")) > 0 {
			t.Error("got cache-control want it omitted for gRPC")
		}
		time.Sleep(wait - time.Microsecond)
		_, _, err = w.empty(t.Context())
		mustCode(t, "a microsecond early", err, codes.ResourceExhausted)
		time.Sleep(time.Microsecond)
		_, _, err = w.empty(t.Context())
		mustCode(t, "in time", err, codes.OK)
		if got := w.service.calls.Load(); got != 4 {
			t.Errorf("the handler ran %d times want 4", got)
		}
	})
}

func TestAllowedCallHeader(t *testing.T) {
	t.Parallel()
	s := &service{unary: func(ctx context.Context) error {
		return grpc.SetHeader(ctx, metadata.Pairs("ratelimit", `"handler";r=7;t=1`, "x-mine", "1"))
	}}
	w := serve(t, s, newServer(t, nil, globalCharge(policy("calls", "3/1m"))))
	header, trailer, err := w.empty(t.Context())
	mustCode(t, "first call", err, codes.OK)
	if r := item(t, header, "ratelimit", "calls", "r"); r != int64(2) {
		t.Errorf("middleware: got r %v want 2", r)
	}
	if r := item(t, header, "ratelimit", "handler", "r"); r != int64(7) || len(header.Get("x-mine")) != 1 {
		t.Errorf("handler: got %v want its metadata kept", header)
	}
	if len(header.Get("retry-after"))+len(header.Get("grpc-retry-pushback-ms"))+trailer.Len() > 0 {
		t.Errorf("got header %v, trailer %v want no wait", header, trailer)
	}
}

func TestFieldOptions(t *testing.T) {
	t.Parallel()
	fields := &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.XRateLimitEpoch}}
	w := serve(t, &service{}, newServer(t, &grpclimit.Options{Fields: fields}, globalCharge(policy("calls", "3/1m"))))
	header, _, _ := w.empty(t.Context())
	if got := header.Get("x-ratelimit-remaining"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("got %v want 2 remaining", header)
	}
	off := &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.Off}}
	w = serve(t, &service{}, newServer(t, &grpclimit.Options{Fields: off, Pushback: -1}, globalCharge(policy("calls", "1/1m"))))
	header, _, _ = w.empty(t.Context())
	_, trailer, err := w.empty(t.Context())
	mustCode(t, "off", err, codes.ResourceExhausted)
	delete(header, "content-type")
	delete(trailer, "content-type")
	if len(header) > 0 || len(trailer.Get("grpc-retry-pushback-ms")) > 0 || len(trailer.Get("retry-after")) != 1 {
		t.Errorf("off: got header %v, trailer %v want retry-after on the denial only", header, trailer)
	}
}

// If one charge is denied, the others are not spent. The details list each policy that
// denied.
func TestChargesAreAtomic(t *testing.T) {
	t.Parallel()
	recorded := &eventRecorder{}
	l := newServer(t, &grpclimit.Options{Observer: recorded},
		globalCharge(policy("wide", "3/1h")),
		grpclimit.Charge{Policy: policy("tight", "1/1h", "2/1d"), Key: grpclimit.Metadata("user")},
		globalCharge(headgate.MustPolicy("3/1h")))
	w := serve(t, &service{}, l)
	as := func(user string) error {
		_, _, err := w.empty(metadata.AppendToOutgoingContext(t.Context(), "user", user))
		return err
	}
	mustCode(t, "ann", as("ann"), codes.OK)
	for range 3 {
		mustCode(t, "ann again", as("ann"), codes.ResourceExhausted)
	}
	mustCode(t, "ben", as("ben"), codes.OK)
	mustCode(t, "cleo", as("cleo"), codes.OK)
	err := as("cleo")
	_, quota := details(err)
	var got []string
	for _, v := range quota.GetViolations() {
		got = append(got, v.GetSubject()+": "+v.GetDescription())
	}
	want := []string{"wide: limit exceeded: 3/h", "tight: limit exceeded: 1/h", "default: limit exceeded: 3/h"}
	if !slices.Equal(got, want) {
		t.Errorf("violations: got %q want %q", got, want)
	}
	if strings.Contains(fmt.Sprint(status.Convert(err).Proto()), "cleo") {
		t.Errorf("the error contains the key: %v", err)
	}
	if e := recorded.all(); len(e) != 7*3 || e[1].Policy != "tight" || e[1].Verb != "take" || e[4].Decision.Allowed || !e[3].Decision.Allowed {
		t.Errorf("observed: got %d events, %+v want one for each charge", len(e), e)
	}
}

func TestWhenCostAndSkip(t *testing.T) {
	t.Parallel()
	l := newServer(t, &grpclimit.Options{Skip: grpclimit.HealthOrReflection}, grpclimit.Charge{
		Policy: policy("weight", "10/1h"), Key: grpclimit.Global(),
		Cost: func(ctx context.Context, _ grpclimit.Call) int64 {
			return int64(len(metadata.ValueFromIncomingContext(ctx, "unit")))
		},
		When: func(_ context.Context, c grpclimit.Call) bool {
			return c.Service() == "grpc.testing.TestService" && c.Method == "/grpc.testing.TestService/EmptyCall" && c.Message != nil && !c.Stream
		},
	})
	w := serve(t, &service{}, l)
	costing := func(n int) error {
		ctx := t.Context()
		for range n {
			ctx = metadata.AppendToOutgoingContext(ctx, "unit", "1")
		}
		_, _, err := w.empty(ctx)
		return err
	}
	mustCode(t, "7 of 10", costing(7), codes.OK)
	mustCode(t, "4 of 3", costing(4), codes.ResourceExhausted)
	mustCode(t, "3 of 3", costing(3), codes.OK)
	mustCode(t, "0 of 0", costing(0), codes.OK)
	err := costing(11)
	retry, quota := details(err)
	if retry != nil || len(quota.GetViolations()) != 1 {
		t.Errorf("above the limit: got %v, %v want no RetryInfo, because no wait helps", retry, quota)
	}
	_, trailer, _ := w.empty(metadata.AppendToOutgoingContext(t.Context(), slices.Repeat([]string{"unit", "1"}, 11)...))
	if got := trailer.Get("grpc-retry-pushback-ms"); !slices.Equal(got, []string{"-1"}) || len(trailer.Get("retry-after")) > 0 {
		t.Errorf("above the limit: got %v want a pushback of -1 and no retry-after", trailer)
	}
	_, _, err = w.echo(metadata.AppendToOutgoingContext(t.Context(), "unit", "1"), 1)
	mustCode(t, "no charge applies", err, codes.OK)
}

func TestDeniedHandlerMayAllow(t *testing.T) {
	t.Parallel()
	var denials []*grpclimit.Denial
	l := newServer(t, &grpclimit.Options{DeniedHandler: func(_ context.Context, c grpclimit.Call, d *grpclimit.Denial) error {
		if denials = append(denials, d); len(denials) > 1 {
			return status.Error(codes.PermissionDenied, c.Method)
		}
		return nil
	}}, globalCharge(policy("calls", "1/1h")))
	w := serve(t, &service{}, l)
	for range 2 {
		_, _, err := w.empty(t.Context())
		mustCode(t, "allowed, then allowed by DeniedHandler", err, codes.OK)
	}
	_, trailer, err := w.empty(t.Context())
	mustCode(t, "denied", err, codes.PermissionDenied)
	if len(denials) != 2 || denials[0].Allowed || denials[0].RetryAfter == 0 || !slices.Equal(denials[0].Policies, []string{"calls"}) {
		t.Errorf("got %+v want two denials by calls", denials)
	}
	if len(trailer.Get("retry-after")) != 1 {
		t.Errorf("got %v want the fields with a custom error, too", trailer)
	}
}

// After a panic of the handler the units stay spent, and the next call works.
func TestHandlerPanics(t *testing.T) {
	t.Parallel()
	s := &service{unary: func(context.Context) error { panic("boom") }}
	w := serve(t, s, newServer(t, nil, globalCharge(policy("calls", "2/1h"))))
	for range 2 {
		_, _, err := w.empty(t.Context())
		mustCode(t, "panicked", err, codes.Internal)
	}
	_, _, err := w.empty(t.Context())
	mustCode(t, "after two panics", err, codes.ResourceExhausted)
	_, quota := details(err)
	if len(quota.GetViolations()) != 1 {
		t.Errorf("after two panics: got %v want one violation", quota)
	}
}

// A policy name with invalid UTF-8 does not remove the details of a denial.
func TestPolicyNameWithInvalidUTF8(t *testing.T) {
	t.Parallel()
	w := serve(t, &service{}, newServer(t, nil, globalCharge(policy("a\xff\n\"", "1/1h"))))
	w.empty(t.Context())
	_, trailer, err := w.empty(t.Context())
	mustCode(t, "denied", err, codes.ResourceExhausted)
	retry, quota := details(err)
	if v := quota.GetViolations(); retry == nil || len(v) != 1 || v[0].GetSubject() != "a_\n\"" || len(trailer.Get("ratelimit")) != 1 {
		t.Errorf("got %v, %v, trailer %v want all details", retry, v, trailer)
	}
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	good := globalCharge(policy("good", "1/s"))
	noUser := func(context.Context) (string, bool) { return "", false }
	unnamed, user := headgate.MustPolicy("1/s"), grpclimit.Func(noUser)
	for _, c := range []struct {
		name    string
		charges []grpclimit.Charge
		opts    *grpclimit.Options
		want    error
	}{
		{"no charge", nil, nil, grpclimit.ErrInvalidOptions},
		{"33 charges", slices.Repeat([]grpclimit.Charge{good}, 33), nil, grpclimit.ErrInvalidOptions},
		{"33 limits", []grpclimit.Charge{good, globalCharge(policy("more", slices.Repeat([]string{"1/s"}, 32)...))}, nil, grpclimit.ErrInvalidOptions},
		{"no limit", []grpclimit.Charge{{}}, nil, headgate.ErrInvalidPolicy},
		{"unknown algorithm", []grpclimit.Charge{globalCharge(headgate.Policy{Limits: good.Policy.Limits, Algorithm: "x"})}, nil, headgate.ErrUnknownAlgorithm},
		{"client key", []grpclimit.Charge{{Policy: good.Policy, Key: grpclimit.Target()}}, nil, grpclimit.ErrInvalidOptions},
		{"nested client key", []grpclimit.Charge{{Policy: good.Policy, Key: grpclimit.Join(grpclimit.Method(), grpclimit.First(grpclimit.Target()))}}, nil, grpclimit.ErrInvalidOptions},
		{"metadata without a name", []grpclimit.Charge{{Policy: good.Policy, Key: grpclimit.Metadata("")}}, nil, grpclimit.ErrInvalidOptions},
		{"no function", []grpclimit.Charge{{Policy: good.Policy, Key: grpclimit.Func(nil)}}, nil, grpclimit.ErrInvalidOptions},
		{"no parts", []grpclimit.Charge{{Policy: good.Policy, Key: grpclimit.First()}}, nil, grpclimit.ErrInvalidOptions},
		{"unknown dialect", []grpclimit.Charge{good}, &grpclimit.Options{Fields: &httpfields.Options{Dialects: []httpfields.Dialect{"x"}}}, httpfields.ErrInvalidOptions},
		{"one name, two keys", []grpclimit.Charge{good, {Policy: good.Policy, Key: grpclimit.Method()}}, nil, grpclimit.ErrInvalidOptions},
		{"no name, two functions", []grpclimit.Charge{
			{Policy: unnamed, Key: grpclimit.Func(noUser)}, {Policy: unnamed, Key: grpclimit.Func(noUser)},
		}, nil, grpclimit.ErrInvalidOptions},
		{"one name, one key", []grpclimit.Charge{
			{Policy: good.Policy, Key: grpclimit.Join(user, grpclimit.Key{})}, {Policy: good.Policy, Key: grpclimit.Join(user, grpclimit.Address())},
		}, nil, nil},
		{"no name, two kinds of key", []grpclimit.Charge{{Policy: unnamed, Key: grpclimit.Method()}, {Policy: unnamed, Key: user}}, nil, nil},
	} {
		if _, err := grpclimit.NewServer(memstore.New(nil), c.opts, c.charges...); !isErr(err, c.want) {
			t.Errorf("%s: got %v want %v", c.name, err, c.want)
		}
	}
	if _, err := grpclimit.NewServer(nil, nil, good); !isErr(err, grpclimit.ErrInvalidOptions) {
		t.Errorf("nil store: got %v want an error", err)
	}
	if _, err := grpclimit.NewClient(memstore.New(nil), nil, grpclimit.Charge{Policy: good.Policy, Key: grpclimit.Address()}); !isErr(err, grpclimit.ErrInvalidOptions) {
		t.Errorf("server key: got %v want an error", err)
	}
	if _, err := grpclimit.NewClient(memstore.New(nil), &grpclimit.ClientOptions{Retries: -1}, good); !isErr(err, grpclimit.ErrInvalidOptions) {
		t.Errorf("-1 retries: got %v want an error", err)
	}
}

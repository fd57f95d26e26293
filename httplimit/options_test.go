package httplimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

func TestNewRejectsInvalidOptions(t *testing.T) {
	t.Parallel()
	find := func(*http.Request) (string, bool) { return "", false }
	store := memstore.New(nil)
	var manyLimits []httplimit.Charge
	for range 33 {
		manyLimits = append(manyLimits, httplimit.Charge{Policy: policy("", "1/s")})
	}
	for _, c := range []struct {
		name    string
		store   headgate.Store
		opts    *httplimit.Options
		charges []httplimit.Charge
		want    error
		text    string
	}{
		{"no store", nil, nil, []httplimit.Charge{{Policy: policy("", "1/s")}}, httplimit.ErrInvalidOptions, "memstore.New(nil)"},
		{"no charges", store, nil, nil, httplimit.ErrInvalidOptions, "pass at least one"},
		{"33 limits", store, nil, manyLimits, httplimit.ErrInvalidOptions, "more than 32 limits"},
		{"an empty policy", store, nil, make([]httplimit.Charge, 1), headgate.ErrInvalidPolicy, "charge 1"},
		{
			"an unknown algorithm", store, nil,
			[]httplimit.Charge{{Policy: headgate.Policy{Limits: headgate.MustPolicy("1/s").Limits, Algorithm: "magic"}}},
			headgate.ErrUnknownAlgorithm, "charge 1",
		},
		{
			"unsupported OnStoreError", store, nil,
			[]httplimit.Charge{{Policy: headgate.Policy{Limits: headgate.MustPolicy("1/s").Limits, OnStoreError: "ask"}}},
			headgate.ErrInvalidPolicy, "OnStoreError",
		},
		{
			"an address option", store, &httplimit.Options{Client: &clientaddr.Options{TrustedHops: -1}},
			[]httplimit.Charge{{Policy: policy("", "1/s")}},
			clientaddr.ErrInvalidOptions, "",
		},
		{
			"a fields option", store, &httplimit.Options{Fields: &httpfields.Options{Dialects: []httpfields.Dialect{"html"}}},
			[]httplimit.Charge{{Policy: policy("", "1/s")}},
			httpfields.ErrInvalidOptions, "",
		},
		{"an empty join", store, nil, []httplimit.Charge{{Policy: policy("", "1/s"), Key: httplimit.Join()}}, httplimit.ErrInvalidOptions, "need parts"},
		{
			"a nested header without a name", store, nil,
			[]httplimit.Charge{{Policy: policy("", "1/s"), Key: httplimit.First(httplimit.Join(httplimit.Header("")))}},
			httplimit.ErrInvalidOptions, "no name",
		},
		{"no function", store, nil, []httplimit.Charge{{Policy: policy("", "1/s"), Key: httplimit.Func(nil)}}, httplimit.ErrInvalidOptions, "no function"},
		{
			"one policy name with two keys", store, nil,
			[]httplimit.Charge{{Policy: policy("api", "1/s")}, {Policy: policy("x", "1/s")}, {Policy: policy("api", "5/s"), Key: httplimit.Header("Key")}},
			httplimit.ErrInvalidOptions, "charges 1 and 3",
		},
		{
			"unnamed policies with two functions", store, nil,
			[]httplimit.Charge{{Policy: policy("", "1/s"), Key: httplimit.Func(find)}, {Policy: policy("", "1/s"), Key: httplimit.Func(find)}},
			httplimit.ErrInvalidOptions, "charges 1 and 2",
		},
	} {
		_, err := httplimit.New(c.store, c.opts, c.charges...)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v want %v with %q", c.name, err, c.want, c.text)
		}
	}
}

// Several charges may use the same policy and key, such as one cost for reads and one
// for writes.
func TestNewAcceptsSameKeyTwice(t *testing.T) {
	t.Parallel()
	byUser := httplimit.Func(user)
	for name, keys := range map[string][2]httplimit.Key{
		"address":  {{}, httplimit.Address()},
		"block":    {httplimit.AddressBlock(48), httplimit.AddressBlock(48)},
		"function": {byUser, byUser},
		"join":     {httplimit.Join(byUser, httplimit.Method()), httplimit.Join(byUser, httplimit.Method())},
	} {
		_, err := httplimit.New(memstore.New(nil), nil,
			httplimit.Charge{Policy: policy("api", "10/s"), Key: keys[0]},
			httplimit.Charge{Policy: policy("api", "10/s"), Key: keys[1]})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A nil handler panics when the program starts, not when a request arrives.
func TestNilHandlerPanics(t *testing.T) {
	t.Parallel()
	limit := newMiddleware(t, nil, httplimit.Charge{Policy: policy("", "1/s")})
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "http.DefaultServeMux") {
			t.Errorf("got %s want a panic with advice", text)
		}
	}()
	limit(nil)
}

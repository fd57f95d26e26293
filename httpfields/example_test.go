package httpfields_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/memstore"
)

func Example() {
	policy := headgate.Policy{Name: "login", Limits: []headgate.Limit{headgate.MustParseLimit("5/15m")}}
	limiter, err := headgate.New(memstore.New(nil), policy, nil)
	if err != nil {
		panic(err)
	}
	fields, err := httpfields.New(nil)
	if err != nil {
		panic(err)
	}
	limits := fields.Set(httpfields.Limit{Name: policy.Name, Limit: policy.Limits[0]})

	d, err := limiter.AllowAt(context.Background(), time.UnixMicro(1_747_785_600_000_000), "203.0.113.9", 1)
	if err != nil {
		panic(err)
	}
	header := http.Header{}
	var text strings.Builder
	text.Grow(128)
	fields.Write(header, limits, []headgate.Decision{d}, time.Time{}, &text)
	fmt.Println("RateLimit-Policy:", header.Get("RateLimit-Policy"))
	fmt.Println("RateLimit:", header.Get("RateLimit"))
	// Output:
	// RateLimit-Policy: "login";q=5;w=900
	// RateLimit: "login";r=4;t=720
}

package redisstore_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

var updateContract = flag.Bool("update-contract", false, "write the files in contract that are generated")

//go:embed contract/check.lua
var checkLua string

const contractFile = "contract/headgate-v1.lua"

const contractHeader = `-- Headgate check script, version 1. docs/reference/lua-scripts.md documents it.
--
-- KEYS[1]: the Redis key. ARGV: verb (check, peek, refund, reset), algorithm, rate,
-- period in µs, capacity, cost, and optionally the instant in µs (default: the server's
-- clock). Reply: allowed, limit, remaining, retry_after, reset_after, delay, never.
--
-- This file is generated from the Lua code in algo and redisstore. Do not edit it.

`

// contractText returns the text of the published script.
func contractText() string {
	names := make([]string, 0, len(algo.Rates()))
	for _, a := range algo.Rates() {
		if !a.Name.HasCalendar() { // its windows are not parameters of the script
			names = append(names, fmt.Sprintf("%q", a.Name))
		}
	}
	return contractHeader + redisstore.AlgorithmsText() +
		"\nlocal function decide(KEYS, ARGV)\n" + redisstore.StoreText() + "\nend\n\n" +
		"local ALGORITHMS = {" + strings.Join(names, ", ") + "}\n\n" + checkLua
}

// The published script is made of the code that the store sends. It supports the
// algorithms of contractCases: a further one needs its parameters in check.lua. The
// algorithms that scripts/test-made-up-algorithm adds are not published.
func TestContractScriptIsCurrent(t *testing.T) {
	for _, a := range algo.Rates() {
		if strings.HasPrefix(string(a.Name), "made_up_") {
			return
		}
		if !a.Name.HasCalendar() && !slices.ContainsFunc(contractCases, func(c contractCase) bool { return c.algorithm == a.Name }) {
			t.Errorf("%s has no case in contractCases", a.Name)
		}
	}
	want := contractText()
	if *updateContract {
		if err := os.WriteFile(contractFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(contractFile); err != nil || string(got) != want {
		t.Errorf("%s differs from the code of the store (%v); run this test with -update-contract", contractFile, err)
	}
}

// contract executes the published script as another program would.
type contract struct {
	server *testserver.RedisServer
	sha    string
}

func loadContract(t *testing.T, server *testserver.RedisServer) contract {
	t.Helper()
	return contract{server, server.Do(t, "SCRIPT", "LOAD", contractText()).String()}
}

// call returns the numbers of the reply.
func (c contract) call(t *testing.T, redisKey string, args ...string) []int64 {
	t.Helper()
	reply := c.server.Do(t, append([]string{"EVALSHA", c.sha, "1", redisKey}, args...)...)
	numbers := make([]int64, len(reply.Items))
	for i, item := range reply.Items {
		numbers[i] = item.Int()
	}
	return numbers
}

// contractCase is a policy with one limit whose states the script and a store share.
type contractCase struct {
	algorithm headgate.Algorithm
	limit     string
}

var contractCases = []contractCase{
	{headgate.TokenBucket, "10/1s burst 20"},
	{headgate.TokenBucket, "7/1m"},
	{headgate.TokenBucket, "1000000000/8784h burst 3"},
	{headgate.TokenBucketInterval, "3/10s burst 7"},
	{headgate.FixedWindow, "5/1m"},
	{headgate.SlidingLog, "5/15m"},
	{headgate.SlidingWindow, "100/1h"},
	{headgate.LeakyBucket, "3/1s queue 4"},
}

func (c contractCase) args(verb headgate.Verb, cost int64, at headgate.Instant) []string {
	l := headgate.MustParseLimit(c.limit)
	return []string{
		[]string{"check", "peek", "refund", "reset"}[verb], string(c.algorithm), fmt.Sprint(l.Rate),
		fmt.Sprint(l.Period.Microseconds()), fmt.Sprint(l.Capacity()), fmt.Sprint(cost), fmt.Sprint(int64(at)),
	}
}

// numbers returns a decision in the form of the script's reply.
func numbers(d headgate.Decision) []int64 {
	bit := map[bool]int64{true: 1}
	return []int64{
		bit[d.Allowed], d.Limit, d.Remaining, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Delay.Microseconds(), bit[d.Never],
	}
}

// step is a random request.
type contractStep struct {
	verb headgate.Verb
	cost int64
	at   headgate.Instant
}

func (c contractCase) steps(dice *rand.Rand, n int) []contractStep {
	l := headgate.MustParseLimit(c.limit)
	at, steps := headgate.Instant(1_790_000_000_123_456), make([]contractStep, n)
	verbs := []headgate.Verb{headgate.Take, headgate.Take, headgate.Take, headgate.Take, headgate.Peek, headgate.Refund}
	for i := range steps {
		at += headgate.Instant(dice.Int64N(2*l.Period.Microseconds()/l.Rate*(1+dice.Int64N(4)) + 2))
		steps[i] = contractStep{verbs[dice.IntN(len(verbs))], dice.Int64N(l.Capacity()/2 + 2), at}
		if dice.IntN(40) == 0 {
			steps[i].verb = headgate.Reset
		}
		if dice.IntN(20) == 0 {
			steps[i].cost = l.Capacity() + 1
		}
	}
	return steps
}

// decide executes a step with a Go store.
func (s contractStep) decide(t *testing.T, bound headgate.Bound, key string) []int64 {
	t.Helper()
	d, err := bound.Apply(context.Background(), s.at, key, s.verb, s.cost)
	if err != nil {
		t.Fatal(err)
	}
	return numbers(d)
}

// Requests that alternate between the published script and a Go store have the same
// decisions as if the Go store had decided all of them.
func TestContractMatchesStore(t *testing.T) {
	server := testserver.Redis(t)
	script := loadContract(t, server)
	var vectors []vector
	for i, c := range contractCases {
		t.Run(fmt.Sprint(c.algorithm, " ", c.limit), func(t *testing.T) {
			scope := fmt.Sprintf("policy:0:%d", i)
			rule := headgate.Rule{Scope: scope, Name: "x", Limit: headgate.MustParseLimit(c.limit), Algorithm: c.algorithm}
			bound, err := open(t, "redis://"+server.Addr(), nil).Bind(rule)
			if err != nil {
				t.Fatal(err)
			}
			for n, s := range c.steps(rand.New(rand.NewPCG(uint64(i), 11)), 400) {
				want := s.decide(t, bound, "alone")
				args := c.args(s.verb, s.cost, s.at)
				if n < 12 {
					vectors = append(vectors, vector{fmt.Sprintf("vector:%d", i), args, want})
				}
				var got []int64
				if n%2 == 0 {
					got = script.call(t, redisstore.RedisKey("default", c.algorithm, scope, "shared"), args...)
				} else {
					got = s.decide(t, bound, "shared")
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("step %d, %q: got %d, want %d", n, args, got, want)
				}
			}
		})
	}
	mustBeCurrent(t, "contract/vectors.json", vectors)
	for i, v := range vectors {
		if got := script.call(t, v.Key, v.Args...); !reflect.DeepEqual(got, v.Reply) {
			t.Errorf("vector %d, %q: got %d, want %d", i, v.Args, got, v.Reply)
		}
	}
}

// vector is a call of the script and its reply. The calls with one key are in order.
type vector struct {
	Key   string   `json:"key"`
	Args  []string `json:"args"`
	Reply []int64  `json:"reply"`
}

// mustBeCurrent checks that a published file contains the values, one in each line.
func mustBeCurrent[T any](t *testing.T, file string, values []T) {
	t.Helper()
	var text strings.Builder
	for i, v := range values {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString([]string{"[\n", ",\n"}[min(i, 1)] + string(line))
	}
	text.WriteString("\n]\n")
	if *updateContract {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != text.String() {
		t.Fatalf("%s is not current (%v); run this test with -update-contract", file, err)
	}
}

// keyVector is a key of a caller and its Redis key.
type keyVector struct {
	Code     string `json:"code"`
	Policy   string `json:"policy"`
	Limit    int    `json:"limit"`
	Key      string `json:"key"`
	RedisKey string `json:"redis_key"`
}

func TestContractKeys(t *testing.T) {
	long := strings.Repeat("a “policy” ", 9)
	vectors := []keyVector{
		{Code: "tb", Policy: "api", Key: "user:42"},
		{Code: "sl2", Policy: "login", Limit: 1, Key: "2001:db8::1"},
		{Code: "fw", Policy: "größe", Key: "{x} y~%"},
		{Code: "sw", Policy: long, Key: strings.Repeat("long/", 30)},
		{Code: "lb", Policy: "api", Key: strings.Repeat("ü", 40)},
		{Code: "ti", Policy: "api", Key: ""},
	}
	algorithms := map[string]headgate.Algorithm{
		"tb": headgate.TokenBucket, "ti": headgate.TokenBucketInterval, "fw": headgate.FixedWindow,
		"sl2": headgate.SlidingLog, "sw": headgate.SlidingWindow, "lb": headgate.LeakyBucket,
	}
	for i, v := range vectors {
		vectors[i].RedisKey = redisstore.RedisKey("default", algorithms[v.Code], fmt.Sprintf("policy:%d:%s", v.Limit, v.Policy), v.Key)
	}
	mustBeCurrent(t, "contract/keys.json", vectors)
}

// With the server's clock a key expires at most a minute after its state is unused.
func TestContractTTL(t *testing.T) {
	server := testserver.Redis(t)
	script := loadContract(t, server)
	for i, c := range contractCases {
		c.limit = "5/10h"
		key := fmt.Sprint("ttl:", i)
		reply := script.call(t, key, c.args(headgate.Take, 5, 0)[:6]...)
		ttl, reset := server.Do(t, "PTTL", key).Int(), reply[4]/1000
		if reply[0] != 1 || ttl < reset-3_600_000 || ttl > reset+60_001 {
			t.Errorf("%s: reply %d, TTL %d ms", c.algorithm, reply, ttl)
		}
	}
}

func TestContractUsageErrors(t *testing.T) {
	server := testserver.Redis(t)
	script := loadContract(t, server)
	valid := []string{"check", "token_bucket", "10", "1000000", "20", "1"}
	for i, wrong := range []string{"take", "gcr", "0", "999", "1000000001", "-1"} {
		args := append([]string{}, valid...)
		args[i] = wrong
		_, err := server.Try(append([]string{"EVALSHA", script.sha, "1", "k"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), "HEADGATE_USAGE") || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: got error %v", args, err)
		}
	}
	server.Do(t, "SET", "foreign", "text")
	_, err := server.Try(append([]string{"EVALSHA", script.sha, "1", "foreign"}, valid...)...)
	if err == nil || !strings.Contains(err.Error(), "HEADGATE_FOREIGN") {
		t.Errorf("a foreign value: got error %v", err)
	}
}

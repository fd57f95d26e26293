package storetest

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate"
)

func keyChecks() []check {
	return []check{
		{name: "hostile keys", rule: "any text is a valid key, and different keys have different state", perAlgorithm: checkHostileKeys},
		{name: "several hostile keys", rule: "any text is a valid key under several limits, and together with any other key in one request", perAlgorithm: checkHostileKeysMulti},
		{name: "scope and key are separate", rule: "scope and key are separate: the same concatenated text does not share state", once: checkScopes},
		{name: "policies share state by name", rule: "policies share the state of a key if and only if their names and algorithms are equal", once: checkPolicies},
	}
}

// hostileTexts returns keys that stores have confused with each other, rejected or
// failed on: guarantees T10 and T39 in docs/internals/guarantees.md.
func hostileTexts() []string {
	long := strings.Repeat("k", 64<<10)
	return []string{
		"", " ", "  ", "\t", "\n", "\r\n", "\x00", "a", "A", "a\x00", "a\x00b", "a b", "a:b", "a/b", "*", "%s", "-1", "0",
		"é", "e\u0301", "e", "\xff", "\xfe", "\xff\xff", "\ufffd", "\u200b", "日本", "\U0001f600",
		"{", "}", "{}", "}{", "a}b", "{a}b", "{a}c", "{}a", "}}", "{{", "}{}", "{a", "a}", "{a}", "a{b}c", "{}{a}", "{{a}}", "{a}}",
		strings.Repeat("{", 1024), strings.Repeat("}", 1024), strings.Repeat("{}", 512), strings.Repeat("}{", 512),
		long, long[:len(long)-1], long[1:] + "l", "l" + long[1:], strings.Repeat("\xff", 64<<10),
		strings.Repeat("k", 250), strings.Repeat("k", 251), strings.Repeat("é", 200),
	}
}

func checkHostileKeys(ts *tester, a headgate.Algorithm) {
	l := ts.limiter(a, "1/24h")
	for _, key := range hostileTexts() {
		if d := ts.take(l, start, key, 1); !d.Allowed {
			ts.failf("%s: the first take of key %s: got %s want allowed: it shares state with an earlier key", describe(l), truncate(key), formatDecision(d))
		}
	}
	for _, key := range hostileTexts() {
		if d := ts.take(l, start, key, 1); d.Allowed {
			ts.failf("%s: the second take of key %s: got allowed want denied: its state was lost", describe(l), truncate(key))
		}
	}
	ts.reset(l, start, "a")
	ts.mustDeny(l, start, "A", 1)
	ts.mustAllow(l, start, "a", 1)
}

// checkHostileKeysMulti spends units of every key under two limits, alone and together
// with the previous key. The store must find the state of every key of a request,
// whatever braces the keys contain, and spend units of each key separately: guarantees
// T9 and T10 in docs/internals/guarantees.md.
func checkHostileKeysMulti(ts *tester, a headgate.Algorithm) {
	limits := []headgate.Limit{headgate.MustParseLimit("3/24h"), headgate.MustParseLimit("5/24h")}
	l := ts.limiterFor(headgate.Policy{Name: ts.name(), Algorithm: a, Limits: limits})
	previous := "the first"
	ts.mustAllow(l, start, previous, 2)
	for _, key := range hostileTexts() {
		if d := ts.mustAllow(l, start, key, 1); d.Remaining != 2 {
			ts.failf("%s: two limits on key %s, unused: got %s want 2 remaining", describe(l), truncate(key), formatDecision(d))
		}
		pair := []headgate.Check{{Limiter: l, Key: previous, Cost: 1}, {Limiter: l, Key: key, Cost: 1}}
		if d := ts.takeAll(start, pair...); !d.Allowed || d.Remaining != 0 {
			ts.failf("%s: keys %s and %s, with 1 and 2 left, in one request: got %s want allowed with 0 remaining", describe(l), truncate(previous), truncate(key), formatDecision(d))
		}
		ts.mustRemain(l, start, key, 1, "spent alone and with another key")
		previous = key
	}
}

func truncate(key string) string {
	if len(key) > 24 {
		return fmt.Sprintf("%q… (%d bytes)", key[:24], len(key))
	}
	return fmt.Sprintf("%q", key)
}

// checkScopes binds rules directly, because the scope of a rule may be any text. A
// Limiter does not allow that.
func checkScopes(ts *tester) {
	texts := []string{"a:b:c", "1:a1:b", "a\x00b\x00c", "{a}{b}", "::::", "aaaa", "2:ab3:c", "a|b|c", "a\\:b"}
	for range 40 {
		texts = append(texts, ts.ambiguousText())
	}
	for n, text := range texts {
		ts.checkSplits(fmt.Sprintf("%s %d ", ts.prefix, n), text)
	}
}

// ambiguousText returns a short random text from a small alphabet that includes common
// separators.
func (ts *tester) ambiguousText() string {
	const letters = "ab:/|{}\x00\\1"
	text := make([]byte, 2+ts.random.IntN(8))
	for i := range text {
		text[i] = letters[ts.random.IntN(len(letters))]
	}
	return string(text)
}

// checkSplits splits text into a scope and a key at every position. Each pair of scope
// and key must have separate state.
func (ts *tester) checkSplits(prefix, text string) {
	algorithm := ts.options.algorithms()[0]
	limit := headgate.MustParseLimit("1/24h")
	for i := range len(text) + 1 {
		scope, key := prefix+text[:i], text[i:]
		b, err := ts.store.Bind(headgate.Rule{Scope: scope, Name: "rule", Limit: limit, Algorithm: algorithm})
		ts.mustf(err, "bind scope %q", scope)
		for _, want := range []bool{true, false} {
			d, err := b.Apply(background, start, key, headgate.Take, 1)
			ts.mustf(err, "take")
			if d.Allowed != want {
				ts.failf("scope %q, key %q: got allowed=%v want %v", scope, key, d.Allowed, want)
			}
		}
	}
}

func checkPolicies(ts *tester) {
	limit := []headgate.Limit{headgate.MustParseLimit("10/24h")}
	spend := func(name string, a headgate.Algorithm, want int64, why string) {
		l := ts.limiterFor(headgate.Policy{Name: name, Algorithm: a, Limits: limit})
		if d := ts.mustAllow(l, start, "key", 1); d.Remaining != want {
			ts.failf("policy %q, %s: got %d remaining want %d: %s", name, a, d.Remaining, want, why)
		}
	}
	for _, a := range ts.options.algorithms() {
		name := ts.name()
		spend(name, a, 9, "the key is unused")
		spend(name, a, 8, "a policy with the same name and algorithm shares its state")
		spend(name+" ", a, 9, "a policy with another name has its own state")
		spend(strings.ToUpper(name), a, 9, "a policy with another name has its own state")
	}
	name := ts.name()
	for _, a := range ts.options.algorithms() {
		spend(name, a, 9, "a policy with another algorithm has its own state")
	}
	ts.checkAliases(name)
	ts.checkRepeatedLimit()
}

// checkAliases checks that the algorithm names “gcra” and "" mean the token bucket.
func (ts *tester) checkAliases(name string) {
	if ts.options.algorithms()[0] != headgate.TokenBucket {
		return // the store does not support the token bucket; the check “bind” covers that
	}
	limit := []headgate.Limit{headgate.MustParseLimit("10/24h")}
	for i, a := range []headgate.Algorithm{headgate.GCRA, ""} {
		l := ts.limiterFor(headgate.Policy{Name: name, Algorithm: a, Limits: limit})
		if d := ts.mustAllow(l, start, "key", 1); d.Remaining != int64(8-i) {
			ts.failf("algorithm %q is an alias of token_bucket: got %d remaining want %d", a, d.Remaining, 8-i)
		}
	}
}

// checkRepeatedLimit checks that two equal limits of one policy have separate counts.
func (ts *tester) checkRepeatedLimit() {
	limit := headgate.MustParseLimit("3/24h")
	p := headgate.Policy{Name: ts.name(), Algorithm: ts.options.algorithms()[0], Limits: []headgate.Limit{limit, limit}}
	l := ts.limiterFor(p)
	for want := int64(2); want >= 0; want-- {
		if d := ts.mustAllow(l, start, "key", 1); d.Remaining != want {
			ts.failf("a policy with the same limit twice: got %d remaining want %d", d.Remaining, want)
		}
	}
	ts.mustDeny(l, start, "key", 1)
}

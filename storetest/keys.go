package storetest

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate"
)

func keyChecks() []check {
	return []check{
		{name: "hostile keys", rule: "any key is a key: no two are merged, none is refused", each: hostileKeys},
		{name: "hostile keys together", rule: "any key is a key under several limits, and beside any other key on one request", each: hostileTogether},
		{name: "scopes", rule: "a scope and a key are told apart, wherever the one ends and the other begins", judge: scopesAndKeys},
		{name: "policies", rule: "policies share a key's state if, and only if, name and algorithm are the same", judge: policiesShare},
	}
}

// hostile are keys that stores have merged, refused or stumbled over. // T10, T39
func hostile() []string {
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

func hostileKeys(j *judge, a headgate.Algorithm) {
	l := j.limiter(a, "1/24h")
	for _, key := range hostile() {
		if d := j.take(l, start, key, 1); !d.Allowed {
			j.failf("%s: the first take of key %s: got %s want allowed: it shares state with a key before it", describe(l), clip(key), show(d))
		}
	}
	for _, key := range hostile() {
		if d := j.take(l, start, key, 1); d.Allowed {
			j.failf("%s: the second take of key %s: got allowed want denied: its state was lost", describe(l), clip(key))
		}
	}
	j.reset(l, start, "a")
	j.mustDeny(l, start, "A", 1)
	j.mustAllow(l, start, "a", 1)
}

// hostileTogether charges every key under two limits, alone and together with the key before it: what belongs on one request
// must be found, whatever braces the keys hold, and each key pays for itself. // T9, T10
func hostileTogether(j *judge, a headgate.Algorithm) {
	limits := []headgate.Limit{headgate.MustParseLimit("3/24h"), headgate.MustParseLimit("5/24h")}
	l := j.limiterFor(headgate.Policy{Name: j.name(), Algorithm: a, Limits: limits})
	before := "the first"
	j.mustAllow(l, start, before, 2)
	for _, key := range hostile() {
		if d := j.mustAllow(l, start, key, 1); d.Remaining != 2 {
			j.failf("%s: two limits on key %s, unused: got %s want 2 remaining", describe(l), clip(key), show(d))
		}
		pair := []headgate.Check{{Limiter: l, Key: before, Cost: 1}, {Limiter: l, Key: key, Cost: 1}}
		if d := j.takeAll(start, pair...); !d.Allowed || d.Remaining != 0 {
			j.failf("%s: keys %s and %s, with 1 and 2 left, charged together: got %s want allowed with 0 remaining", describe(l), clip(before), clip(key), show(d))
		}
		j.mustHold(l, start, key, 1, "charged alone and with another")
		before = key
	}
}

func clip(key string) string {
	if len(key) > 24 {
		return fmt.Sprintf("%q… (%d bytes)", key[:24], len(key))
	}
	return fmt.Sprintf("%q", key)
}

// scopesAndKeys binds rules itself: scopes are any text.
func scopesAndKeys(j *judge) {
	texts := []string{"a:b:c", "1:a1:b", "a\x00b\x00c", "{a}{b}", "::::", "aaaa", "2:ab3:c", "a|b|c", "a\\:b"}
	for range 40 {
		texts = append(texts, j.ambiguous())
	}
	for n, text := range texts {
		j.splits(fmt.Sprintf("%s %d ", j.prefix, n), text)
	}
}

// ambiguous is a random text of few letters, among them those that join things.
func (j *judge) ambiguous() string {
	const letters = "ab:/|{}\x00\\1"
	text := make([]byte, 2+j.random.IntN(8))
	for i := range text {
		text[i] = letters[j.random.IntN(len(letters))]
	}
	return string(text)
}

// splits makes a scope and a key of text at every place, and wants a state of its own for each.
func (j *judge) splits(prefix, text string) {
	algorithm := j.options.algorithms()[0]
	limit := headgate.MustParseLimit("1/24h")
	for i := range len(text) + 1 {
		scope, key := prefix+text[:i], text[i:]
		b, err := j.store.Bind(headgate.Rule{Scope: scope, Name: "rule", Limit: limit, Algorithm: algorithm})
		j.mustf(err, "bind scope %q", scope)
		for _, want := range []bool{true, false} {
			d, err := b.Apply(background, start, key, headgate.Take, 1)
			j.mustf(err, "take")
			if d.Allowed != want {
				j.failf("scope %q, key %q: got allowed=%v want %v", scope, key, d.Allowed, want)
			}
		}
	}
}

func policiesShare(j *judge) {
	limit := []headgate.Limit{headgate.MustParseLimit("10/24h")}
	spend := func(name string, a headgate.Algorithm, want int64, why string) {
		l := j.limiterFor(headgate.Policy{Name: name, Algorithm: a, Limits: limit})
		if d := j.mustAllow(l, start, "key", 1); d.Remaining != want {
			j.failf("policy %q, %s: got %d remaining want %d: %s", name, a, d.Remaining, want, why)
		}
	}
	for _, a := range j.options.algorithms() {
		name := j.name()
		spend(name, a, 9, "nobody used it before")
		spend(name, a, 8, "a policy with the same name and algorithm shares its state")
		spend(name+" ", a, 9, "another name has a state of its own")
		spend(strings.ToUpper(name), a, 9, "another name has a state of its own")
	}
	name := j.name()
	for _, a := range j.options.algorithms() {
		spend(name, a, 9, "another algorithm has a state of its own")
	}
	j.aliasShares(name)
	j.limitsOfOnePolicy()
}

// aliasShares: gcra is the token bucket, and so is the empty name.
func (j *judge) aliasShares(name string) {
	if j.options.algorithms()[0] != headgate.TokenBucket {
		return // it is declared as unsupported, and that is tested
	}
	limit := []headgate.Limit{headgate.MustParseLimit("10/24h")}
	for i, a := range []headgate.Algorithm{headgate.GCRA, ""} {
		l := j.limiterFor(headgate.Policy{Name: name, Algorithm: a, Limits: limit})
		if d := j.mustAllow(l, start, "key", 1); d.Remaining != int64(8-i) {
			j.failf("algorithm %q is the token bucket by another name: got %d remaining want %d", a, d.Remaining, 8-i)
		}
	}
}

// limitsOfOnePolicy: two equal limits of one policy are two accounts.
func (j *judge) limitsOfOnePolicy() {
	limit := headgate.MustParseLimit("3/24h")
	p := headgate.Policy{Name: j.name(), Algorithm: j.options.algorithms()[0], Limits: []headgate.Limit{limit, limit}}
	l := j.limiterFor(p)
	for want := int64(2); want >= 0; want-- {
		if d := j.mustAllow(l, start, "key", 1); d.Remaining != want {
			j.failf("a policy with the same limit twice: got %d remaining want %d", d.Remaining, want)
		}
	}
	j.mustDeny(l, start, "key", 1)
}

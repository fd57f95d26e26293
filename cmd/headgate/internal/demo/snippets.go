package demo

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// snippets are code examples that use the current settings.
type snippets struct {
	Go   string `json:"go"`
	YAML string `json:"yaml"`
	Curl string `json:"curl"`
}

func (s Settings) snippets(a headgate.Algorithm, checkURL string) snippets {
	return snippets{Go: s.goCode(a), YAML: s.yaml(a), Curl: s.curl(a, checkURL)}
}

// goName returns the name of the Go constant for an algorithm.
func goName(a headgate.Algorithm) string {
	var name strings.Builder
	for part := range strings.SplitSeq(string(a), "_") {
		name.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return name.String()
}

func (s Settings) goCode(a headgate.Algorithm) string {
	return fmt.Sprintf(`package main

import (
	"context"
	"fmt"
	"log"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

func main() {
	limiter, err := headgate.New(memstore.New(nil), headgate.Policy{
		Name:      %q,
		Limits:    []headgate.Limit{headgate.MustParseLimit(%q)},
		Algorithm: headgate.%s,
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.AllowN(context.Background(), %s, %d)
	if err != nil {
		log.Fatal(err) // an error means no decision; a denial is not an error
	}
	fmt.Println(d.Allowed, d.Remaining, d.RetryAfter, d.Delay)
}
`, policyName, s.limit(a), goName(a), strconv.Quote(s.Key), s.Cost)
}

func (s Settings) yaml(a headgate.Algorithm) string {
	return fmt.Sprintf(`policies:
  %s:
    limits: [%q]
    algorithm: %s
`, policyName, s.limit(a).String(), a)
}

func (s Settings) curl(a headgate.Algorithm, url string) string {
	var body strings.Builder
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		Limit     string             `json:"limit"`
		Algorithm headgate.Algorithm `json:"algorithm"`
		Key       string             `json:"key"`
		Cost      int64              `json:"cost"`
	}{s.limit(a).String(), a, s.Key, s.Cost})
	if err != nil {
		return "" // never happens, because strings and numbers can always be encoded
	}
	return "curl -d " + shellQuote(strings.TrimSuffix(body.String(), "\n")) + " " + url + "\n"
}

// shellQuote quotes text as one word for a POSIX shell.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

package httplimit_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
)

// quoted matches the texts between backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

func textsIn(cell string) []string {
	var texts []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		texts = append(texts, m[1])
	}
	return texts
}

// The names of limits are as docs/reference/header-fields.md documents them, because
// clients rely on the names.
func TestNamesOfLimits(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/reference/header-fields.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| policy | limits | names in header fields |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[1:]
	if len(rows) < 5 {
		t.Fatalf("the table has %d rows, want at least 5", len(rows))
	}
	name := regexp.MustCompile(`"([^"]+)"`)
	for _, row := range rows {
		cells := strings.Split(row, " | ")
		policies := []headgate.Policy{headgate.MustPolicy(textsIn(cells[1])...)}
		if strings.HasPrefix(cells[0], "| two policies") {
			policies = nil
			for _, limit := range textsIn(cells[1]) {
				policies = append(policies, headgate.MustPolicy(limit))
			}
		}
		var charges []httplimit.Charge
		for _, p := range policies {
			p.Name = strings.Join(textsIn(cells[0]), "")
			charges = append(charges, httplimit.Charge{Policy: p})
		}
		h := newMiddleware(t, nil, charges...)(http.NotFoundHandler())
		var got []string
		for _, m := range name.FindAllStringSubmatch(serve(h, request("203.0.113.9:1")).Header().Get("RateLimit-Policy"), -1) {
			got = append(got, m[1])
		}
		if want := textsIn(cells[2]); !slices.Equal(got, want) {
			t.Errorf("%s: got %q want %q", row, got, want)
		}
	}
}

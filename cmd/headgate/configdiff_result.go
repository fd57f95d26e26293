package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/replay"
)

// maxDiffKeys is the maximum number of keys whose denials are counted one by one, and
// worstDiffKeys the number that is printed.
const maxDiffKeys, worstDiffKeys = 1 << 20, 10

// diffCounter counts how decisions under two files differ.
type diffCounter struct {
	denied, shadow                 [2]int64 // under the old file and under the new one
	newly, newlyAllowed, newShadow int64
	keys                           map[string]*keyDiff // with requests that only the new file denies
	keysFull                       bool
	policies                       map[string]int64 // requests that only the new file denies, by policy
}

// keyDiff is a key with requests that only the new file denies.
type keyDiff struct {
	Key      string `json:"key"`
	Newly    int64  `json:"newly_denied"`
	Policies string `json:"policies"` // that denied the last of them
}

// add counts a request of a key.
func (c *diffCounter) add(key string, before, after *dryDecision) {
	for i, d := range []*dryDecision{before, after} {
		if d.denied {
			c.denied[i]++
		}
		if d.shadow {
			c.shadow[i]++
		}
	}
	if after.shadow && !before.shadow && !after.denied {
		c.newShadow++
	}
	switch {
	case before.denied && !after.denied:
		c.newlyAllowed++
	case after.denied && !before.denied:
		c.addNewly(key, after.policies)
	}
}

func (c *diffCounter) addNewly(key string, policies []string) {
	c.newly++
	if c.keys == nil {
		c.keys, c.policies = make(map[string]*keyDiff), make(map[string]int64)
	}
	for _, name := range policies {
		c.policies[name]++
	}
	k := c.keys[key]
	if k == nil {
		if len(c.keys) >= maxDiffKeys {
			c.keysFull = true
			return
		}
		k = &keyDiff{Key: strings.Clone(key)}
		c.keys[k.Key] = k
	}
	k.Newly++
	k.Policies = strings.Join(policies, ", ")
}

// diffResult is the result of “headgate config diff”, in the structure of the JSON
// output.
type diffResult struct {
	Old          diffFile     `json:"old"`
	New          diffFile     `json:"new"`
	Requests     int64        `json:"requests"` // that were decided under both files
	Undecided    int64        `json:"undecided"`
	Skipped      int64        `json:"skipped"` // lines without a request that both files can decide
	Unreadable   int64        `json:"unreadable"`
	FirstUS      int64        `json:"first_us"`
	LastUS       int64        `json:"last_us"`
	Newly        int64        `json:"newly_denied"`
	NewlyKeys    int64        `json:"newly_denied_keys"`
	KeysExact    bool         `json:"keys_exact"`
	NewlyAllowed int64        `json:"newly_allowed"`
	NewShadow    int64        `json:"newly_denied_in_shadow_mode"`
	Policies     []diffPolicy `json:"policies"`
	Worst        []keyDiff    `json:"worst"`
}

type diffFile struct {
	Path       string `json:"path"`
	Denied     int64  `json:"denied"`
	Shadow     int64  `json:"denied_in_shadow_mode"`
	Overflowed uint64 `json:"overflowed"`
}

type diffPolicy struct {
	Policy string `json:"policy"`
	Newly  int64  `json:"newly_denied"`
}

func (d *configDiff) result(report *replay.Report, skipped int64) *diffResult {
	c := &d.count
	r := &diffResult{
		Old:      diffFile{d.olds.path, c.denied[0], c.shadow[0], d.olds.overflowed()},
		New:      diffFile{d.news.path, c.denied[1], c.shadow[1], d.news.overflowed()},
		Requests: d.requests - d.undecided, Undecided: d.undecided, Skipped: skipped + d.bare, Unreadable: report.Unreadable,
		FirstUS: report.FirstUS, LastUS: report.LastUS,
		Newly: c.newly, NewlyKeys: int64(len(c.keys)), KeysExact: !c.keysFull, NewlyAllowed: c.newlyAllowed, NewShadow: c.newShadow,
		Policies: []diffPolicy{}, Worst: []keyDiff{},
	}
	for name, n := range c.policies {
		r.Policies = append(r.Policies, diffPolicy{name, n})
	}
	slices.SortStableFunc(r.Policies, func(a, b diffPolicy) int {
		return cmp.Or(cmp.Compare(b.Newly, a.Newly), cmp.Compare(a.Policy, b.Policy))
	})
	for _, k := range c.keys {
		r.Worst = append(r.Worst, *k)
	}
	slices.SortStableFunc(r.Worst, func(a, b keyDiff) int { return cmp.Or(cmp.Compare(b.Newly, a.Newly), cmp.Compare(a.Key, b.Key)) })
	r.Worst = r.Worst[:min(len(r.Worst), worstDiffKeys)]
	return r
}

// print writes the result as text.
func (r *diffResult) print(w io.Writer) error {
	span := time.Duration(r.LastUS-r.FirstUS) * time.Microsecond
	fmt.Fprintf(w, "%s in %v\n\n", counted64(r.Requests, "request", "requests"), span.Round(time.Second))
	for _, row := range [][3]string{
		{"", "old", "new"},
		{"denied", thousands(r.Old.Denied), thousands(r.New.Denied)},
		{"denied, share", r.share(r.Old.Denied), r.share(r.New.Denied)},
		{"would deny (shadow mode)", thousands(r.Old.Shadow), thousands(r.New.Shadow)},
	} {
		if _, err := fmt.Fprintf(w, "%-24s  %12s  %12s\n", row[0], row[1], row[2]); err != nil {
			return err
		}
	}
	return r.printDifference(w)
}

func (r *diffResult) printDifference(w io.Writer) error {
	atLeast := ""
	if !r.KeysExact {
		atLeast = "at least "
	}
	fmt.Fprintf(w, "\nnewly denied: %s of %s%s\n", counted64(r.Newly, "request", "requests"), atLeast, counted64(r.NewlyKeys, "key", "keys"))
	for _, p := range r.Policies {
		fmt.Fprintf(w, "  %s by policy %s\n", thousands(p.Newly), p.Policy)
	}
	fmt.Fprintf(w, "newly allowed: %s\n", counted64(r.NewlyAllowed, "request", "requests"))
	if r.NewShadow > 0 {
		fmt.Fprintf(w, "newly denied in shadow mode only: %s\n", counted64(r.NewShadow, "request", "requests"))
	}
	if len(r.Worst) > 0 {
		fmt.Fprint(w, "\nkeys with the most newly denied requests\n")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range r.Worst {
		fmt.Fprintf(t, "  %q\t%s\t%s\n", k.Key, thousands(k.Newly), k.Policies)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.printNotes(w)
}

// printNotes writes what makes the result less certain.
func (r *diffResult) printNotes(w io.Writer) (err error) {
	for _, note := range []struct {
		n    int64
		text string
	}{
		{r.Unreadable, "unreadable lines, which were skipped"},
		{r.Skipped, "operations, or JSON lines without --policy, which were skipped"},
		{r.Undecided, "requests that were not decided, because a limit needs a hold or the request is invalid"},
		{int64(r.Old.Overflowed + r.New.Overflowed), "decisions on the state of several keys; increase --memory"},
	} {
		if note.n > 0 && err == nil {
			_, err = fmt.Fprintf(w, "\n%s: %s\n", note.text, thousands(note.n))
		}
	}
	return err
}

func (r *diffResult) share(n int64) string {
	if r.Requests == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.4g %%", 100*float64(n)/float64(r.Requests))
}

func counted64(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

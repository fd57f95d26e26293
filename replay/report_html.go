package replay

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

//go:embed assets/page.html assets/page.css assets/page.js assets/uPlot.iife.min.js assets/uPlot.min.css
var assets embed.FS

// page is the data of the HTML template.
type page struct {
	*Report
	CSP             string
	Style           template.CSS
	Library, Script template.JS
	Data            Series
}

// row is a row of the HTML table of the series: one interval.
type row struct {
	AtUS     int64
	Requests int64
	Denied   []int64
}

// WriteHTML writes the report as one HTML page with charts. Scripts and styles are part
// of the page; it makes no network requests, and its content security policy forbids
// all other scripts and styles. WriteHTML must not be called on a report without
// requests.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{Report: r, Data: r.Series}
	style, library, script := asset("uPlot.min.css")+asset("page.css"), asset("uPlot.iife.min.js"), asset("page.js")
	p.Style, p.Library, p.Script = template.CSS(style), template.JS(library), template.JS(script)
	p.CSP = fmt.Sprintf("default-src 'none'; script-src %s %s; style-src %s; base-uri 'none'; form-action 'none'",
		digest(library), digest(script), digest(style))
	t, err := template.New("page").Funcs(template.FuncMap{
		"count": countAny, "percent": percent, "instant": instant, "span": span, "key": showKey, "share": share, "bar": bar, "title": title,
	}).Parse(asset("page.html"))
	if err != nil {
		return err
	}
	var text bytes.Buffer // a buffer, because the template makes many small writes
	if err := t.Execute(&text, p); err != nil {
		return err
	}
	_, err = w.Write(text.Bytes())
	return err
}

// asset returns an embedded file and panics if it is missing.
func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// digest returns the SHA-256 hash of an inline script or style, in the form that the
// content security policy requires.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// bar returns an SVG bar whose length shows a rate between 0 and 1. The length is an
// attribute, because the content security policy of the page forbids inline styles.
func bar(share float64) template.HTML {
	return template.HTML(fmt.Sprintf(
		`<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect width="%.2f" height="1"/></svg>`, share*100))
}

// title returns the name of an algorithm as words.
func title(a headgate.Algorithm) string {
	switch a {
	case "":
		return ""
	case headgate.TokenBucketInterval:
		return "Token bucket by interval"
	}
	words := strings.ReplaceAll(string(a), "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// countAny formats n like count. n is an int64 or a *int64.
func countAny(n any) string {
	if p, ok := n.(*int64); ok {
		return count(*p)
	}
	return count(n.(int64))
}

// The HTML template calls the following methods.

// Several reports whether the report has several policies.
func (p page) Several() bool { return len(p.Policies) > 1 }

// Answer compares the policies in two sentences: how many requests they deny, how many
// keys they affect, and which of them affect the fewest keys.
func (p page) Answer() string {
	byDenied := func(a, b *PolicyReport) int { return cmp.Compare(a.Denied, b.Denied) }
	byKeys := func(a, b *PolicyReport) int { return cmp.Compare(a.KeysTouched, b.KeysTouched) }
	var all []*PolicyReport
	for i := range p.Policies {
		all = append(all, &p.Policies[i])
	}
	least, most := slices.MinFunc(all, byDenied), slices.MaxFunc(all, byDenied)
	fewest, widest := slices.MinFunc(all, byKeys), slices.MaxFunc(all, byKeys)
	var names []string
	for _, policy := range all {
		if policy.KeysTouched == fewest.KeysTouched {
			names = append(names, title(policy.Algorithm))
		}
	}
	return fmt.Sprintf("The algorithms deny %s (%s) to %s (%s) of the requests, and affect %s to %s of %s keys. Fewest keys: %s.",
		count(least.Denied), percent(least.DeniedShare), count(most.Denied), percent(most.DeniedShare),
		count(fewest.KeysTouched), count(widest.KeysTouched), count(p.Keys), strings.Join(names, ", "))
}

// SeveralLimits reports whether the first policy has more than one limit.
func (p page) SeveralLimits() bool { return len(p.Policies[0].Limits) > 1 }

// Compares reports whether policies were compared with the sliding log.
func (p page) Compares() bool { return p.compares() }

// Limits returns the limits of the first policy as text.
func (p page) Limits() string { return p.limits() }

// OtherLimits returns one line of text for each set of limits that differs from the
// limits of the first policy.
func (p page) OtherLimits() []string { return p.otherLimits() }

// KeyNames returns a text that describes the keys: the names of the log fields, such as
// “ip+path”, or “the key of each record” for JSON lines.
func (p page) KeyNames() string { return p.keyNames() }

// SpanUS returns the time between the first and the last request, in µs.
func (p page) SpanUS() int64 { return p.LastUS - p.FirstUS }

// Rows returns the rows of the HTML table: one for each interval of the series.
func (p page) Rows() []row {
	rows := make([]row, len(p.Series.Requests))
	for i, requests := range p.Series.Requests {
		rows[i] = row{AtUS: p.Series.StartUS + int64(i)*p.Series.WidthUS, Requests: requests}
		for _, denied := range p.Series.Denied {
			rows[i].Denied = append(rows[i].Denied, denied[i])
		}
	}
	return rows
}

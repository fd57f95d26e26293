package replay

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
)

//go:embed assets/page.html assets/page.css assets/page.js assets/uPlot.iife.min.js assets/uPlot.min.css
var assets embed.FS

// page is the data of the page's template.
type page struct {
	*Report
	CSP             string
	Style           template.CSS
	Library, Script template.JS
	Data            Series
}

// row is an interval of the series in the page's table.
type row struct {
	AtUS     int64
	Requests int64
	Denied   []int64
}

// WriteHTML writes the report as one HTML page with charts. The page contains
// everything it needs, makes no network requests, and its content security policy
// forbids other scripts and styles. The report must have decisions.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{Report: r, Data: r.Series}
	style, library, script := asset("uPlot.min.css")+asset("page.css"), asset("uPlot.iife.min.js"), asset("page.js")
	p.Style, p.Library, p.Script = template.CSS(style), template.JS(library), template.JS(script)
	p.CSP = fmt.Sprintf("default-src 'none'; script-src %s %s; style-src %s; base-uri 'none'; form-action 'none'",
		digest(library), digest(script), digest(style))
	t, err := template.New("page").Funcs(template.FuncMap{
		"count": countAny, "percent": percent, "instant": instant, "span": span, "key": showKey, "share": share, "bar": bar,
	}).Parse(asset("page.html"))
	if err != nil {
		return err
	}
	var text bytes.Buffer // the template writes in small parts
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

// digest returns the hash of an inline script or style for the content security policy.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// bar returns a rate as a picture. Its width is an attribute, because the policy of the
// page allows no inline style.
func bar(share float64) template.HTML {
	return template.HTML(fmt.Sprintf(
		`<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect width="%.2f" height="1"/></svg>`, share*100))
}

// countAny is count for a number or a pointer to a number.
func countAny(n any) string {
	if p, ok := n.(*int64); ok {
		return count(*p)
	}
	return count(n.(int64))
}

// The following methods are only for the page's template.

// Several reports whether several policies were compared.
func (p page) Several() bool { return len(p.Policies) > 1 }

// SeveralLimits reports whether a policy has more than one limit.
func (p page) SeveralLimits() bool { return len(p.Policies[0].Limits) > 1 }

// Compares reports whether policies were compared with the sliding log.
func (p page) Compares() bool { return p.compares() }

// Limits returns the limits as text.
func (p page) Limits() string { return p.limits() }

// OtherLimits returns the limits of the policies that differ from the first policy.
func (p page) OtherLimits() []string { return p.otherLimits() }

// KeyNames describes the keys.
func (p page) KeyNames() string { return p.keyNames() }

// SpanUS returns the duration of the log in µs.
func (p page) SpanUS() int64 { return p.LastUS - p.FirstUS }

// Rows returns the intervals of the series.
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

package replay

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/headgate/headgate/internal/theme"
)

//go:embed assets/page.css assets/page.js assets/uPlot.iife.min.js assets/uPlot.min.css
var assets embed.FS

// page renders a report as HTML. Functions of package html and [g.Text] escape their
// text; [g.Raw] does not, so it is called only with embedded files and JSON.
type page struct{ *Report }

// WriteHTML writes the report as one HTML page with charts. Scripts and styles are part
// of the page; it makes no network requests, and its content security policy forbids
// all other scripts and styles. WriteHTML must not be called on a report without
// requests.
func (r *Report) WriteHTML(w io.Writer) error {
	document, err := page{r}.document()
	if err != nil {
		return err
	}
	var text bytes.Buffer // a buffer, because the elements make many small writes
	if err := document.Render(&text); err != nil {
		return err
	}
	_, err = w.Write(text.Bytes())
	return err
}

func (p page) document() (g.Node, error) {
	data, err := scriptData("data", p.Series)
	if err != nil {
		return nil, err
	}
	whichLimit, err := p.whichLimit()
	if err != nil {
		return nil, err
	}
	style, library, script := asset("uPlot.min.css")+theme.Tokens+asset("page.css"), asset("uPlot.iife.min.js"), asset("page.js")
	policy := fmt.Sprintf("default-src 'none'; script-src %s %s; style-src %s; base-uri 'none'; form-action 'none'",
		digest(library), digest(script), digest(style))
	return html.Doctype(html.HTML(html.Lang("en"),
		html.Head(
			html.Meta(html.Charset("utf-8")),
			html.Meta(g.Attr("http-equiv", "Content-Security-Policy"), html.Content(policy)),
			html.Meta(html.Name("viewport"), html.Content("width=device-width, initial-scale=1")),
			html.Meta(html.Name("color-scheme"), html.Content("light dark")),
			html.Meta(html.Name("referrer"), html.Content("no-referrer")),
			html.TitleEl(g.Text("Headgate replay: "+p.limits()+" on "+p.logNames())),
			html.StyleEl(g.Raw(style)),
		),
		html.Body(
			p.header(),
			html.Main(p.tiles(), p.answers(), whichLimit, p.decisions(), p.overTime(), p.worst(), p.badLines(), p.numbers()),
			p.footer(),
			data,
			html.Script(g.Raw(library)),
			html.Script(g.Raw(script)),
		),
	)), nil
}

// scriptData returns a script element that contains value as JSON. JSON in it cannot end
// the element, because encoding/json escapes <, > and &.
func scriptData(id string, value any) (g.Node, error) {
	text, err := json.Marshal(value)
	return html.Script(html.Type("application/json"), html.ID(id), g.Raw(string(text))), err
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

func (p page) header() g.Node {
	compared := title(p.Policies[0].Algorithm)
	if p.several() {
		compared = fmt.Sprintf("%d algorithms compared", len(p.Policies))
	}
	return html.Header(
		html.P(html.Class("kicker"), html.Span(html.Class("icon"), html.Aria("hidden", "true"), g.Raw(theme.Icon)), g.Text("Headgate replay")),
		html.H1(g.Text(p.limits()+" on "), isolated(p.logNames())),
		paragraph("sub", compared+", by "+p.keyNames()+" · "+instant(p.FirstUS)+" to "+instant(p.LastUS)),
		g.Map(p.otherLimits(), func(limits string) g.Node { return paragraph("sub", limits) }),
	)
}

// logNames returns the names of the logs without their folders, or the number of logs if
// there are more than two.
func (p page) logNames() string {
	if len(p.Logs) > 2 {
		return plural(len(p.Logs), "log")
	}
	var names []string
	for _, log := range p.Logs {
		names = append(names, showKey(filepath.Base(log.Name)))
	}
	return strings.Join(names, " and ")
}

func paragraph(class, text string) g.Node { return html.P(html.Class(class), g.Text(text)) }

// several reports whether the report has several policies.
func (p page) several() bool { return len(p.Policies) > 1 }

func (p page) tiles() g.Node {
	first, keys := p.Policies[0], count(p.Keys)
	if !p.KeysExact {
		keys = "≈ " + keys
	}
	return html.Section(html.Class("tiles"), html.Aria("label", "Summary"),
		tile("tile", count(p.Requests), "requests"),
		g.If(!p.several(), g.Group{
			tile("tile bad", count(first.Denied), "denied, "+percent(first.DeniedShare)),
			tile("tile bad", count(first.KeysTouched), "keys denied at least once, "+percent(first.KeysTouchedShare)),
		}),
		tile("tile", keys, "keys"),
		tile("tile", span(p.LastUS-p.FirstUS), "time span of the log"),
		g.If(p.Unreadable > 0, tile("tile", count(p.Unreadable), "unreadable lines, skipped")),
	)
}

func tile(class, number, text string) g.Node {
	return html.Div(html.Class(class), html.B(g.Text(number)), html.Span(g.Text(text)))
}

func (p page) footer() g.Node {
	logs := g.Group{}
	for i, log := range p.Logs {
		lines := " (" + count(log.Lines) + " lines"
		if log.Error != "" {
			lines += ", incomplete"
		}
		logs = append(logs, g.If(i > 0, g.Text(", ")), isolated(showKey(log.Name)), g.Text(lines+")"))
	}
	return html.Footer(html.P(logs,
		g.Text(" · "+count(p.OutOfOrder)+" requests were out of time order · "+count(p.LinesPerSecond)+" lines/s")))
}

package demo

import (
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/headgate/headgate/cmd/headgate/internal/webpage"
)

// maxTracks is the number of rows of counts in a panel.
const maxTracks = 2

// parts returns what is filled into page.html, by the names of the marks. Every text is
// escaped: a part is safe in an element and in a quoted attribute.
func (h *Handler) parts() map[string]g.Node {
	all, limit, example := descriptions(), defaultSettings(), glanceSettings()
	chosen := scenarios()[0].Look[0]
	return map[string]g.Node{
		"store": g.Text(h.opts.Store), "docs": g.Text(docsURL), "modules": webpage.Modules(web),
		"max-burst": number(maxBurst), "max-stream": number(maxStreamRate), "max-units": number(maxUnits), "max-period": number(maxPeriodMS / 1000),
		"rate": number(limit.Rate), "burst": number(limit.Burst), "queue": number(limit.Queue), "cost": number(limit.Cost),
		"glance-rate": number(example.Rate), "glance-burst": number(example.Burst), "glance-queue": number(example.Queue),
		"presets":    g.Map(presets(), preset.option),
		"dialects":   g.Map(dialectChoices(), choice.option),
		"scenarios":  scenarioButtons(),
		"watches":    g.Map(scenarios(), scenario.watch),
		"tabs":       g.Map(all, words.tab),
		"panels":     g.Map(all, func(w words) g.Node { return w.panel(w.Name == chosen) }),
		"decisions":  g.Map(all, func(w words) g.Node { return w.decision(w.Name == chosen) }),
		"algorithms": g.Map(all, func(w words) g.Node { return choice{string(w.Name), w.Title}.option() }),
		"glance":     g.Map(h.glance, glance.row),
		"columns":    g.Map(all, func(w words) g.Node { return html.Th(html.Scope("col"), g.Text(w.Title)) }),
	}
}

func number(n int64) g.Node { return g.Text(strconv.FormatInt(n, 10)) }

func (p preset) option() g.Node {
	data := func(name string, n int64) g.Node { return html.Data(name, strconv.FormatInt(n, 10)) }
	return html.Option(data("rate", p.Rate), data("period", p.Seconds), data("capacity", p.Burst), data("queue", p.Queue),
		data("cost", p.Cost), g.Text(p.Label))
}

func (c choice) option() g.Node { return html.Option(html.Value(c.Value), g.Text(c.Label)) }

// button returns a button that is not pressed.
func button(attributes ...g.Node) g.Node {
	return html.Button(html.Type("button"), html.Aria("pressed", "false"), g.Group(attributes))
}

// scenarioButtons returns a button for each scenario. The first one is emphasised.
func scenarioButtons() g.Node {
	all := g.Group{}
	for i, s := range scenarios() {
		var look []string
		for _, name := range s.Look {
			look = append(look, string(name))
		}
		all = append(all, button(g.If(i == 0, html.Class("primary")), html.Data("scenario", s.Name), html.Data("look", strings.Join(look, " ")),
			html.Aria("describedby", "watch-"+s.Name), html.Disabled(), g.Text(s.Title)))
	}
	return all
}

func (s scenario) watch() g.Node {
	return html.P(html.ID("watch-"+s.Name), g.Attr("hidden"), html.B(html.Class("title"), g.Text(s.Title+".")), g.Text(" "+s.Watch))
}

// tab returns the button that chooses an algorithm on a narrow screen.
func (w words) tab() g.Node {
	return button(html.Data("tab", string(w.Name)), span("", w.Short), html.Canvas(),
		html.Span(html.Class("most"), g.Text("most "), html.B(g.Text("0"))))
}

func span(class, text string) g.Node {
	return html.Span(g.If(class != "", html.Class(class)), g.Text(text))
}

// panel returns the chart and the counts of an algorithm.
func (w words) panel(chosen bool) g.Node {
	name, class := string(w.Name), "panel"
	if chosen {
		class += " chosen"
	}
	counts := g.Group{}
	for i := range maxTracks {
		counts = append(counts, trackCounts(i))
	}
	return html.Article(html.Class(class), html.Data("algorithm", name), g.If(w.Name.Windowed(), g.Attr("data-windowed")),
		html.Aria("labelledby", "title-"+name),
		html.Header(
			html.H3(html.ID("title-"+name), button(html.Data("pick", name), g.Text(w.Title))),
			html.P(html.Class("summary"), g.Text(w.Summary)),
		),
		html.Canvas(html.Class("chart"), html.Role("img"), html.Aria("label",
			w.Title+": budget left over time, and each request. The table of the latest requests has the same data.")),
		html.Div(html.Class("counts"), counts),
	)
}

// trackCounts returns the counts of track i. Only the first track is shown at first.
func trackCounts(i int) g.Node {
	return html.Div(html.Class("count"), html.Data("track", strconv.Itoa(i)), g.If(i > 0, g.Attr("hidden")),
		span("name", ""), g.Text(" "),
		html.P(html.Class("numbers"), outcomeCount("yes", "allowed", false), g.Text(" "), outcomeCount("no", "denied", false), g.Text(" "),
			outcomeCount("un", "undecided", true)),
		html.Div(html.Class("peak"),
			html.P(html.Span(html.Class("word"), g.Text("most in any "), span("per", "4 s"), g.Text(":")), g.Text(" "),
				html.B(g.Text("0")), g.Text(" "), span("times", "limit 10")),
			html.Span(html.Class("bar"), html.Aria("hidden", "true"), html.I()),
		),
	)
}

// outcomeCount returns the count of one kind of decision.
func outcomeCount(class, name string, hidden bool) g.Node {
	return html.Span(html.Class(class), g.If(hidden, g.Attr("hidden")), span("mark "+class, ""), g.Text(" "),
		html.B(html.Data("count", name), g.Text("0")), g.Text(" "), span("word", name))
}

// decision returns the fields of an algorithm's last decision.
func (w words) decision(chosen bool) g.Node {
	name := string(w.Name)
	facts := [][2]string{{"remaining", "remaining"}, {"retry after", "retry_after_us"}, {"full in", "reset_after_us"}, {"delay", "delay_us"}}
	return html.Div(html.Class("last"), html.Data("of", name), g.If(!chosen, g.Attr("hidden")),
		html.Div(html.Class("who"), html.H2(g.Text(w.Title)), html.P(
			html.A(html.Href(docsURL+"/reference/algorithms.md#"+name), g.Text("How it works"), span("hidden", ": "+w.Title)), g.Text(" "),
			html.Button(html.Type("button"), html.Class("quiet"), html.Data("code", name), html.Aria("label", "Code for "+w.Title), g.Text("Code")),
		)),
		html.Div(html.Class("decided"),
			html.P(html.Class("verdict"), html.B(html.Class("code-of"), g.Text("no requests yet")), g.Text(" "), span("whose", "")),
			html.Dl(html.Class("facts"), g.Map(facts, func(fact [2]string) g.Node {
				return html.Div(html.Dt(g.Text(fact[0])), html.Dd(html.Data("fact", fact[1]), g.Text("–")))
			})),
		),
		html.Pre(html.Class("fields"), g.Text("Header fields of the HTTP response")),
	)
}

func (l glance) row() g.Node {
	text := func(s string) g.Node { return html.Td(html.Class("text"), g.Text(s)) }
	count := func(n int) g.Node { return html.Td(number(int64(n))) }
	return html.Tr(html.Th(html.Scope("row"), g.Text(l.Words.Title)), text(l.Words.Use), count(l.Once), count(l.Edge), count(l.Pause),
		text(l.Words.Bound), text(l.Words.Denied), html.Td(g.Text(l.Words.Memory)))
}

package replay

import (
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/headgate/headgate"
)

// answers states which algorithm to choose and which limit. It is nil without an answer.
func (p page) answers() g.Node {
	answers := g.Group{}
	if answer := p.answer(); answer != "" {
		answers = append(answers, sentence(answer))
	}
	if p.Curve != nil {
		answers = append(answers, sentence(p.Curve.answer()))
	}
	return answers
}

// sentence returns an answer in which “%” stays on the line of its number.
func sentence(answer string) g.Node {
	return paragraph("answer", strings.ReplaceAll(answer, " %", "\u00a0%"))
}

func (p page) decisions() g.Node {
	heading := "Decisions"
	if p.several() {
		heading = "Which algorithm?"
	}
	return section("decisions", heading,
		table("Algorithms", p.decisionsHead(), g.Map(p.Policies, p.decisionsRow)),
		html.P(html.Class("note"), html.Sup(g.Text("1")), g.Text(" The cost is above the limit, so no wait helps."),
			g.If(p.measured(), g.Text(" “Most in any” period is the most units that one key was admitted; the period may begin at any time. "+
				"An algorithm that delays requests is not recommended, because a log does not show whether clients wait."))),
		g.If(len(p.Policies[0].Limits) > 1, p.denialsByLimit()),
	)
}

func (p page) decisionsHead() g.Node {
	tall := html.RowSpan("2")
	return g.Group{
		html.Tr(column(tall, g.Text("Algorithm")), column(tall, g.Text("Allowed")), column(tall, g.Text("Denied")),
			column(tall, g.Text("Rate")), html.Td(tall), column(tall, g.Text("Impossible"), html.Sup(g.Text("1"))),
			column(tall, g.Text("Keys denied")), html.Th(html.Scope("colgroup"), html.ColSpan("4"), g.Text("Denials per key")),
			g.Map(p.Policies[0].Limits, p.mostColumn),
			g.If(p.compares(), column(tall, g.Text("Differ from the"), html.Br(), g.Text("sliding log")))),
		html.Tr(columns("p50", "p90", "p99", "max")),
	}
}

// mostColumn returns the header of the most units in any one period of a limit. It is
// nil if nothing was measured.
func (p page) mostColumn(limit LimitReport) g.Node {
	return g.If(p.measured(), column(html.RowSpan("2"), g.Text("Most in"), html.Br(), g.Text("any "+span(limit.PeriodUS))))
}

func (p page) decisionsRow(policy PolicyReport) g.Node {
	q := policy.DenialsPerKey
	return row(title(policy.Algorithm), p.tags(policy.Algorithm),
		cell(count(policy.Admitted)), cell(count(policy.Denied)), cell(percent(policy.DeniedShare)), bar(policy.DeniedShare),
		cell(count(policy.Never)), cell(count(policy.KeysTouched)+" ("+percent(policy.KeysTouchedShare)+")"),
		counts([]int64{q.P50, q.P90, q.P99, q.Max}),
		g.Map(policy.Limits, func(limit LimitReport) g.Node { return g.If(p.measured(), cell(limit.mostText())) }),
		g.Iff(p.compares(), func() g.Node { return cell(count(*policy.Differs) + " (" + percent(policy.DiffersShare) + ")") }),
	)
}

// tags returns how an algorithm is recommended.
func (p page) tags(a headgate.Algorithm) (tags []string) {
	if p.Advice != nil && p.Advice.Algorithm == a {
		tags = append(tags, "recommended")
	}
	if p.Advice != nil && p.Advice.Strict == a {
		tags = append(tags, "strict")
	}
	return tags
}

func (p page) denialsByLimit() g.Node {
	names := []string{"Algorithm"}
	for _, limit := range p.Policies[0].Limits {
		names = append(names, limit.Limit)
	}
	return g.Group{
		html.H3(g.Text("Denials by limit")),
		table("Denials by limit", html.Tr(columns(names...)), g.Map(p.Policies, func(policy PolicyReport) g.Node {
			return html.Tr(rowName(title(policy.Algorithm)),
				g.Map(policy.Limits, func(limit LimitReport) g.Node { return cell(count(limit.Denied)) }))
		})),
	}
}

func (p page) worst() g.Node {
	if len(p.Worst) == 0 {
		return section("worst", "Keys with the most denials", html.P(g.Text("No key was denied.")))
	}
	head := html.Tr(columns("Key", "Requests"), g.If(p.Curve != nil, columns("Denied over time")),
		columns(p.deniedColumns()...), g.If(!p.several(), html.Td()))
	rows := g.Map(p.Worst, func(key WorstKey) g.Node {
		return html.Tr(html.Th(html.Scope("row"), html.Class("key"), isolated(showKey(key.Key))), cell(count(key.Requests)),
			g.Iff(p.Curve != nil, func() g.Node { return p.sparkline(key.Series) }),
			counts(key.Denied), g.If(!p.several(), bar(share(key.Denied[0], key.Requests))))
	})
	return section("worst", "Keys with the most denials", table("Keys", head, rows),
		g.If(p.DenialsForgotten > 0, paragraph("note", "The statistics of all keys do not fit into memory: each key may have up to "+
			count(p.DenialsForgotten)+" more denials.")))
}

// deniedColumns returns the name of the column of denials for each policy.
func (p page) deniedColumns() (names []string) {
	for _, policy := range p.Policies {
		if !p.several() {
			return []string{"Denied"}
		}
		names = append(names, title(policy.Algorithm))
	}
	return names
}

func (p page) badLines() g.Node {
	if len(p.BadLines) == 0 {
		return nil
	}
	return section("bad-lines", "Unreadable lines",
		html.Ul(g.Map(p.BadLines, func(line BadLine) g.Node { return html.Li(isolated(line.String())) })))
}

// numbers returns a table with the numbers of the charts: one row for each interval of
// the series.
func (p page) numbers() g.Node {
	rows := g.Group{}
	for i, requests := range p.Series.Requests {
		numbers := []int64{requests}
		for _, denied := range p.Series.Denied {
			numbers = append(numbers, denied[i])
		}
		rows = append(rows, html.Tr(rowName(instant(p.Series.StartUS+int64(i)*p.Series.WidthUS)), counts(numbers)))
	}
	return html.Section(html.Details(html.Summary(g.Text("Numbers of the charts")),
		table("Numbers over time", html.Tr(columns("From (UTC)", "Requests"), columns(p.deniedColumns()...)), rows)))
}

// section returns a section with a heading, which also names it for screen readers.
func section(id, heading string, content ...g.Node) g.Node {
	return html.Section(html.Aria("labelledby", id), html.H2(html.ID(id), g.Text(heading)), g.Group(content))
}

// table returns a table that scrolls horizontally if it is too wide for the page. The
// name is for screen readers.
func table(name string, head, rows g.Node) g.Node {
	return html.Div(html.Class("wide"), html.Role("region"), html.Aria("label", name), html.TabIndex("0"), html.Table(html.THead(head), html.TBody(rows)))
}

func column(content ...g.Node) g.Node { return html.Th(html.Scope("col"), g.Group(content)) }

func columns(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return column(g.Text(name)) })
}

// row returns a row with a name. A row with tags is emphasised.
func row(name string, tags []string, cells ...g.Node) g.Node {
	label := g.Group{g.Text(name)}
	for _, tag := range tags {
		label = append(label, g.Text(" "), html.Span(html.Class("tag"), g.Text(tag)))
	}
	return html.Tr(g.If(len(tags) > 0, html.Class("chosen")), html.Th(html.Scope("row"), label), g.Group(cells))
}

func rowName(name string) g.Node { return html.Th(html.Scope("row"), g.Text(name)) }

func cell(text string) g.Node { return html.Td(g.Text(text)) }

func counts(numbers []int64) g.Node {
	return g.Map(numbers, func(n int64) g.Node { return cell(count(n)) })
}

// isolated returns text from a log. Its direction of writing does not affect the text
// around it.
func isolated(text string) g.Node { return g.El("bdi", g.Text(text)) }

// bar returns a cell with a bar whose length shows a rate between 0 and 1. The length
// is an attribute, because the content security policy of the page forbids inline
// styles.
func bar(share float64) g.Node {
	return html.Td(html.Class("bar"), html.SVG(g.Attr("viewBox", "0 0 100 1"), g.Attr("preserveAspectRatio", "none"), html.Aria("hidden", "true"),
		g.El("rect", html.Width(strconv.FormatFloat(share*100, 'f', 2, 64)), html.Height("1"))))
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

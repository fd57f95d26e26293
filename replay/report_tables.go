package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/headgate/headgate"
)

// answer compares the policies in two sentences: how many requests they deny, how many
// keys they affect, and which of them affect the fewest keys. It is nil for one policy.
func (p page) answer() g.Node {
	if !p.several() {
		return nil
	}
	byDenied := func(a, b PolicyReport) int { return cmp.Compare(a.Denied, b.Denied) }
	byKeys := func(a, b PolicyReport) int { return cmp.Compare(a.KeysTouched, b.KeysTouched) }
	least, most := slices.MinFunc(p.Policies, byDenied), slices.MaxFunc(p.Policies, byDenied)
	fewest, widest := slices.MinFunc(p.Policies, byKeys), slices.MaxFunc(p.Policies, byKeys)
	var names []string
	for _, policy := range p.Policies {
		if policy.KeysTouched == fewest.KeysTouched {
			names = append(names, title(policy.Algorithm))
		}
	}
	return paragraph("answer", fmt.Sprintf(
		"The algorithms deny %s (%s) to %s (%s) of the requests, and affect %s to %s of %s keys. Fewest keys: %s.",
		count(least.Denied), percent(least.DeniedShare), count(most.Denied), percent(most.DeniedShare),
		count(fewest.KeysTouched), count(widest.KeysTouched), count(p.Keys), strings.Join(names, ", ")))
}

// overTime returns the figures into which page.js draws the charts.
func (p page) overTime() g.Node {
	caption := g.Group{g.Text("Requests")}
	if !p.several() {
		caption = append(caption, g.Text(" and "), html.I(html.Class("denied"), g.Text("denials")))
	}
	small := g.Group{}
	for i, policy := range p.Policies {
		small = append(small, html.Figure(html.Class("chart small"), html.Data("chart", strconv.Itoa(i)),
			html.FigCaption(g.Text(title(policy.Algorithm)+" "), html.Small(g.Text(percent(policy.DeniedShare)+" denied")))))
	}
	return section("over-time", "Over time",
		paragraph("note", "Each bar is "+span(p.Series.WidthUS)+". Times are UTC."),
		html.NoScript(paragraph("note", "The charts need JavaScript; the table at the end has all their numbers.")),
		html.Figure(html.Class("chart"), html.Data("chart", "requests"), html.FigCaption(caption)),
		g.If(p.several(), html.Div(html.Class("multiples"), small)),
	)
}

func (p page) decisions() g.Node {
	return section("decisions", "Decisions",
		table(p.decisionsHead(), g.Map(p.Policies, p.decisionsRow)),
		html.P(html.Class("note"), html.Sup(g.Text("1")), g.Text(" The cost is above the limit, so no wait helps.")),
		g.If(len(p.Policies[0].Limits) > 1, p.denialsByLimit()),
	)
}

func (p page) decisionsHead() g.Node {
	tall := html.RowSpan("2")
	return g.Group{
		html.Tr(column(tall, g.Text("Algorithm")), column(tall, g.Text("Allowed")), column(tall, g.Text("Denied")),
			column(tall, g.Text("Rate")), html.Td(tall), column(tall, g.Text("Impossible"), html.Sup(g.Text("1"))),
			column(tall, g.Text("Keys denied")), html.Th(html.Scope("colgroup"), html.ColSpan("4"), g.Text("Denials per key")),
			g.If(p.compares(), column(tall, g.Text("Differ from the"), html.Br(), g.Text("sliding log")))),
		html.Tr(columns("p50", "p90", "p99", "max")),
	}
}

func (p page) decisionsRow(policy PolicyReport) g.Node {
	q := policy.DenialsPerKey
	return html.Tr(rowName(title(policy.Algorithm)),
		cell(count(policy.Admitted)), cell(count(policy.Denied)), cell(percent(policy.DeniedShare)), bar(policy.DeniedShare),
		cell(count(policy.Never)), cell(count(policy.KeysTouched)+" ("+percent(policy.KeysTouchedShare)+")"),
		counts([]int64{q.P50, q.P90, q.P99, q.Max}),
		g.Iff(p.compares(), func() g.Node { return cell(count(*policy.Differs) + " (" + percent(policy.DiffersShare) + ")") }),
	)
}

func (p page) denialsByLimit() g.Node {
	names := []string{"Algorithm"}
	for _, limit := range p.Policies[0].Limits {
		names = append(names, limit.Limit)
	}
	return g.Group{
		html.H3(g.Text("Denials by limit")),
		table(html.Tr(columns(names...)), g.Map(p.Policies, func(policy PolicyReport) g.Node {
			return html.Tr(rowName(title(policy.Algorithm)),
				g.Map(policy.Limits, func(limit LimitReport) g.Node { return cell(count(limit.Denied)) }))
		})),
	}
}

func (p page) worst() g.Node {
	if len(p.Worst) == 0 {
		return section("worst", "Keys with the most denials", html.P(g.Text("No key was denied.")))
	}
	head := html.Tr(columns("Key", "Requests"), columns(p.deniedColumns()...), g.If(!p.several(), html.Td()))
	rows := g.Map(p.Worst, func(key WorstKey) g.Node {
		return html.Tr(html.Th(html.Scope("row"), html.Class("key"), isolated(showKey(key.Key))), cell(count(key.Requests)),
			counts(key.Denied), g.If(!p.several(), bar(share(key.Denied[0], key.Requests))))
	})
	return section("worst", "Keys with the most denials", table(head, rows),
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
		table(html.Tr(columns("From (UTC)", "Requests"), columns(p.deniedColumns()...)), rows)))
}

// section returns a section with a heading, which also names it for screen readers.
func section(id, heading string, content ...g.Node) g.Node {
	return html.Section(html.Aria("labelledby", id), html.H2(html.ID(id), g.Text(heading)), g.Group(content))
}

// table returns a table that scrolls horizontally if it is too wide for the page.
func table(head, rows g.Node) g.Node {
	return html.Div(html.Class("wide"), html.Table(html.THead(head), html.TBody(rows)))
}

func column(content ...g.Node) g.Node { return html.Th(html.Scope("col"), g.Group(content)) }

func columns(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return column(g.Text(name)) })
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

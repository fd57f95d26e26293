package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"
)

// whichLimit returns the section with the curve. It is nil if the report has no curve.
// page.js draws the chart from the element with the id curve.
func (p page) whichLimit() (g.Node, error) {
	if p.Curve == nil {
		return nil, nil
	}
	tags := make([][]string, len(p.Curve.Points))
	rows := g.Group{}
	for i, point := range p.Curve.Points {
		tags[i] = p.Curve.tags(i)
		rows = append(rows, row(point.limits(), tags[i], cell("×"+point.Factor), cell(count(point.KeysTouched)),
			cell(percent(point.KeysTouchedShare)), cell(count(point.Denied)), cell(percent(point.DeniedShare))))
	}
	data, err := scriptData("curve", struct {
		Points []CurvePoint `json:"points"`
		Tags   [][]string   `json:"tags"`
	}{p.Curve.Points, tags})
	return section("which-limit", "Which limit?",
		html.Figure(html.Class("chart"), html.Data("curve", ""), html.FigCaption(
			html.I(html.Class("keys"), g.Text("Keys denied")), g.Text(" and "), html.I(html.Class("denied"), g.Text("requests denied")),
			g.Text(" by limit "), html.Small(g.Text(title(p.Curve.Algorithm))))),
		table("Limits", html.Tr(columns("Limit", "Factor", "Keys denied", "Rate", "Requests denied", "Rate")), rows),
		paragraph("note", "Rate, burst and queue of the given limit are multiplied by the factor and rounded down. "+
			"A key is denied if at least one of its requests is."),
		data,
	), err
}

// overTime returns the figures into which page.js draws the charts.
func (p page) overTime() g.Node {
	caption := g.Group{g.Text("Requests")}
	if !p.several() {
		caption = append(caption, g.Text(" and "), html.I(html.Class("denied"), g.Text("denials")))
	}
	return section("over-time", "Over time",
		paragraph("note", "Each interval is "+span(p.Series.WidthUS)+". Times are UTC."),
		html.NoScript(paragraph("note", "The charts need JavaScript; the table at the end has all their numbers.")),
		html.Figure(html.Class("chart"), html.Data("chart", "requests"), html.FigCaption(caption)),
		g.Iff(p.several(), p.denialLines),
	)
}

// denialLines returns the figure with a line for each algorithm, and its legend.
// Algorithms whose denials are equal in every interval share a line.
func (p page) denialLines() g.Node {
	legend := g.Group{}
	for n, line := range p.lines() {
		var names []string
		for _, policy := range line {
			names = append(names, title(p.Policies[policy].Algorithm))
		}
		number := strconv.Itoa(n + 1)
		legend = append(legend, html.Li(html.Class("line-"+number), html.Data("line", strconv.Itoa(line[0])),
			html.SVG(g.Attr("viewBox", "0 0 28 4"), html.Aria("hidden", "true"), g.El("path", g.Attr("d", "M0 2H28"))),
			g.Text(strings.Join(names, ", ")+" "), g.El("output")))
	}
	return html.Figure(html.Class("chart"), html.Data("chart", "denied"),
		html.FigCaption(g.Text("Denials by algorithm")), html.Ul(html.Class("legend"), legend))
}

// lines groups the indexes of policies whose denials are equal in every interval.
func (p page) lines() (lines [][]int) {
	for i := range p.Policies {
		n := slices.IndexFunc(lines, func(line []int) bool { return slices.Equal(p.Series.Denied[line[0]], p.Series.Denied[i]) })
		if n < 0 {
			lines = append(lines, []int{i})
		} else {
			lines[n] = append(lines[n], i)
		}
	}
	return lines
}

// sparkline returns a cell with a bar for each interval. The text for screen readers is
// the interval with the most denials.
func (p page) sparkline(series []int64) g.Node {
	most := slices.Max(series)
	if most == 0 {
		return html.Td()
	}
	var path strings.Builder
	for i, n := range series {
		if n > 0 {
			fmt.Fprintf(&path, "M%d 1V%.3fH%dV1Z", i, 1-float64(n)/float64(most), i+1)
		}
	}
	at := p.Series.StartUS + int64(slices.Index(series, most))*p.Series.WidthUS
	return html.Td(html.Class("spark"), html.SVG(g.Attr("viewBox", fmt.Sprintf("0 0 %d 1", len(series))), g.Attr("preserveAspectRatio", "none"),
		html.Role("img"), html.Aria("label", count(most)+" in the interval from "+instant(at)), g.El("path", g.Attr("d", path.String()))))
}

package main

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width  = 640 * vg.Length(1)
	height = 420 * vg.Length(1)
	gap    = 4 * vg.Length(1) // distance between two panels
)

// The colours are distinguishable with red–green colour blindness. The background is
// opaque, because the pages with the pictures have a light and a dark mode.
var (
	background = color.White
	ink        = color.Gray{0x22}
	faint      = color.Gray{0xdd}
	blue       = color.RGBA{0x00, 0x5f, 0xa8, 0xff}
	orange     = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
)

// panels are the parts of a picture, from top to bottom. fraction is the height of a
// panel as a fraction of the height of the picture.
var panels = [...]struct {
	fraction vg.Length
	build    func(*result) (*plot.Plot, error)
}{
	{0.46, requestsPanel},
	{0.24, remainingPanel},
	{0.30, lastSecondPanel},
}

// draw returns the picture of the result r as an SVG document.
func draw(r *result) ([]byte, error) {
	canvas := vgsvg.New(width, height)
	page := vgdraw.New(canvas)
	page.SetColor(background)
	page.Fill(page.Rectangle.Path())
	top := height - 4
	for _, panel := range panels {
		p, err := panel.build(r)
		if err != nil {
			return nil, err
		}
		bottom := top - panel.fraction*(height-8)
		p.Draw(vgdraw.Crop(page, 6, -8, bottom+gap, top-height))
		top = bottom
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif")), nil
}

// newPanel returns an empty panel with the given vertical axis. The time axis is the
// same in all panels of all pictures.
func newPanel(label string, low, high float64, ticks ...float64) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Min, p.X.Max = -0.25, float64(length)/second
	p.Y.Min, p.Y.Max = low, high
	p.Y.Label.Text = label
	p.Y.Tick.Marker = plot.ConstantTicks(marks(ticks, true))
	p.X.Tick.Marker = plot.ConstantTicks(marks(wholeSeconds(), false))
	p.Y.Padding, p.X.Padding = 0, 0
	p.X.LineStyle.Width, p.X.Tick.LineStyle.Width = 0, 0
	p.Y.LineStyle.Color, p.Y.Tick.LineStyle.Color = ink, ink
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Label.TextStyle, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font, style.Color = sans(10), ink
	}
	p.Add(rules{xs: wholeSeconds(), ys: ticks})
	return p
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func wholeSeconds() []float64 {
	var s []float64
	for t := int64(0); t <= length; t += second {
		s = append(s, float64(t)/second)
	}
	return s
}

func marks(at []float64, labelled bool) []plot.Tick {
	ticks := make([]plot.Tick, len(at))
	for i, v := range at {
		ticks[i].Value = v
		if labelled {
			ticks[i].Label = fmt.Sprint(v)
		}
	}
	return ticks
}

// requestsPanel draws a box for each request, at the time at which the request arrives.
// Requests within the same tenth of a second are stacked. Below the boxes, a vertical
// line shows each time at which an allowed request is sent.
func requestsPanel(r *result) (*plot.Plot, error) {
	p := newPanel("requests", -4.5, 31, 0, 10, 20)
	p.Title.Text = fmt.Sprintf("%s under %s", r.algorithm, r.limit)
	p.Title.TextStyle.Font = sans(13)
	p.Title.Padding = 2
	allowed, denied := boxes{fill: true, color: blue}, boxes{color: orange}
	stacked := map[int64]int{}
	for _, q := range r.requests {
		tenth := q.at / (second / 10)
		at := plotter.XY{X: (float64(tenth) + 0.5) / 10, Y: float64(stacked[tenth]) + 0.5}
		stacked[tenth]++
		if q.allowed {
			allowed.at = append(allowed.at, at)
		} else {
			denied.at = append(denied.at, at)
		}
	}
	sent := combs{color: ink, low: -3.6, high: -1.2}
	for _, t := range r.sent {
		sent.xs = append(sent.xs, float64(t)/second)
	}
	names, err := captions(27.5, caption{1.5, "5 a second"}, caption{4, "25, then 25"}, caption{9, "15 a second"})
	if err != nil {
		return nil, err
	}
	p.Add(allowed, denied, sent, names)
	p.Legend.Add("allowed", allowed)
	p.Legend.Add("denied", denied)
	p.Legend.Add("sent", sent)
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.YOffs = true, true, 270, -34
	p.Legend.ThumbnailWidth, p.Legend.Padding = 10, 4
	return p, nil
}

// caption is a text that is centred at the horizontal position x.
type caption struct {
	x    float64
	text string
}

// captions returns the given captions as labels at the height y.
func captions(y float64, all ...caption) (*plotter.Labels, error) {
	var xy plotter.XYLabels
	for _, c := range all {
		xy.XYs = append(xy.XYs, plotter.XY{X: c.x, Y: y})
		xy.Labels = append(xy.Labels, c.text)
	}
	l, err := plotter.NewLabels(xy)
	if err != nil {
		return nil, err
	}
	for i := range l.TextStyle {
		l.TextStyle[i].Font, l.TextStyle[i].Color, l.TextStyle[i].XAlign = sans(10), ink, vgdraw.XCenter
	}
	return l, nil
}

// remainingPanel draws the number of tokens that can be spent immediately.
func remainingPanel(r *result) (*plot.Plot, error) {
	p := newPanel("remaining", 0, 12, 0, 5, 10)
	line, err := stairs(r.remaining, blue)
	if err != nil {
		return nil, err
	}
	p.Add(line)
	return p, nil
}

// lastSecondPanel draws the number of requests that were sent within the last second,
// and the maximum of this number that the algorithm guarantees.
func lastSecondPanel(r *result) (*plot.Plot, error) {
	p := newPanel("sent in last second", 0, 27, 0, 10, 20)
	p.X.Tick.Marker = plot.ConstantTicks(marks(wholeSeconds(), true))
	p.X.Label.Text = "seconds (windows start at whole seconds)"
	line, err := stairs(r.lastSecond(), ink)
	if err != nil {
		return nil, err
	}
	maximum := maxPerSecond(r.algorithm)
	bound, err := stairs([]level{{0, maximum}}, orange)
	if err != nil {
		return nil, err
	}
	bound.Dashes = []vg.Length{5, 3}
	guarantee, err := captions(float64(maximum)+1.5, caption{6, fmt.Sprintf("guaranteed maximum: %d", maximum)})
	if err != nil {
		return nil, err
	}
	p.Add(bound, line, guarantee)
	return p, nil
}

// stairs returns a step line: each level is drawn from its time until the time of the
// next level.
func stairs(levels []level, c color.Color) (*plotter.Line, error) {
	points := make(plotter.XYs, 0, len(levels)+1)
	for _, l := range levels {
		if l.at <= length {
			points = append(points, plotter.XY{X: float64(l.at) / second, Y: float64(l.n)})
		}
	}
	points = append(points, plotter.XY{X: float64(length) / second, Y: points[len(points)-1].Y})
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.StepStyle, line.Color, line.Width = plotter.PostStep, c, 1.2
	return line, nil
}

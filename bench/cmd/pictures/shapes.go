package main

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// Each shape in this file draws all of its elements as one path, which keeps the SVG
// file small.

// boxes draws small rectangles around points, filled or hollow.
type boxes struct {
	at    []plotter.XY
	fill  bool
	color color.Color
}

const boxWidth, boxHeight = vg.Length(4.2), vg.Length(3.5)

// Plot draws all boxes.
func (b boxes) Plot(c vgdraw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var path vg.Path
	for _, at := range b.at {
		b.add(&path, vg.Point{X: x(at.X), Y: y(at.Y)})
	}
	b.draw(&c, path)
}

// Thumbnail draws one box for the legend.
func (b boxes) Thumbnail(c *vgdraw.Canvas) {
	var path vg.Path
	b.add(&path, c.Center())
	b.draw(c, path)
}

func (b boxes) add(path *vg.Path, center vg.Point) {
	w, h := boxWidth/2, boxHeight/2
	if !b.fill {
		w, h = w-0.4, h-0.4 // subtract half of the line width
	}
	path.Move(vg.Point{X: center.X - w, Y: center.Y - h})
	path.Line(vg.Point{X: center.X + w, Y: center.Y - h})
	path.Line(vg.Point{X: center.X + w, Y: center.Y + h})
	path.Line(vg.Point{X: center.X - w, Y: center.Y + h})
	path.Close()
}

func (b boxes) draw(c *vgdraw.Canvas, path vg.Path) {
	if len(path) == 0 {
		return
	}
	if b.fill {
		c.SetColor(b.color)
		c.Fill(path)
		return
	}
	c.SetLineStyle(vgdraw.LineStyle{Color: b.color, Width: 0.8})
	c.Stroke(path)
}

// combs draws vertical lines, each from the height low to the height high.
type combs struct {
	xs        []float64
	low, high float64
	color     color.Color
}

// Plot draws the lines.
func (l combs) Plot(c vgdraw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var path vg.Path
	for _, at := range l.xs {
		path.Move(vg.Point{X: x(at), Y: y(l.low)})
		path.Line(vg.Point{X: x(at), Y: y(l.high)})
	}
	l.stroke(&c, path)
}

// Thumbnail draws three lines for the legend.
func (l combs) Thumbnail(c *vgdraw.Canvas) {
	var path vg.Path
	for i := range 3 {
		x := c.Center().X + 3*vg.Length(i-1)
		path.Move(vg.Point{X: x, Y: c.Min.Y})
		path.Line(vg.Point{X: x, Y: c.Max.Y})
	}
	l.stroke(c, path)
}

func (l combs) stroke(c *vgdraw.Canvas, path vg.Path) {
	c.SetLineStyle(vgdraw.LineStyle{Color: l.color, Width: 0.7})
	c.Stroke(path)
}

// rules draws faint lines across the whole panel: vertical lines at xs, horizontal
// lines at ys.
type rules struct{ xs, ys []float64 }

// Plot draws the lines.
func (r rules) Plot(c vgdraw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var path vg.Path
	for _, at := range r.xs {
		path.Move(vg.Point{X: x(at), Y: c.Min.Y})
		path.Line(vg.Point{X: x(at), Y: c.Max.Y})
	}
	for _, at := range r.ys {
		path.Move(vg.Point{X: c.Min.X, Y: y(at)})
		path.Line(vg.Point{X: c.Max.X, Y: y(at)})
	}
	c.SetLineStyle(vgdraw.LineStyle{Color: faint, Width: 0.6})
	c.Stroke(path)
}

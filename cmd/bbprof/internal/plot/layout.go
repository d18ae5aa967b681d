package plot

import (
	"io"
	"slices"
)

// Sizes in print, in points: a page's text width, and readable type.
const (
	figureWidth = 16 / 2.54 * 72
	stackedArea = 125.0 // height of the axes of stacked panels
	besideArea  = 170.0 // of panels side by side
	typeSize    = 9.0
	smallSize   = 7.5
	gap         = 4.0  // around text
	panelGap    = 14.0 // between panels
	tickLength  = 3.0
	lineSpacing = 1.3 // of type
	lineHeight  = lineSpacing * typeSize
	keyWidth    = 16.0
	lineWidth   = 0.9
	faint       = 0.25 // opacity of bands and bars
	whiskerCap  = 2.0
)

// Colours of lines and axes that are not data.
const (
	ink  = "#000000"
	pale = "#606060"
	grid = "#e0e0e0"
)

// palette is told apart by most eyes and in grey (Okabe and Ito, "Color Universal Design", 2008).
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", ink}

func (f Figure) Draw(w io.Writer) error {
	c := &svg{}
	y := gap
	heading := func(text string, size float64, colour string) {
		for _, line := range chop(text, size, figureWidth-2*gap) {
			if line != "" {
				y += lineSpacing * size
				c.text(label{at: point{gap, y}, text: line, size: size, colour: colour})
			}
		}
	}
	heading(f.Title, typeSize, ink)
	heading(f.Subject, smallSize, pale)
	heading(f.Machine, smallSize, pale)
	if y += gap; f.Beside {
		y = f.beside(c, y)
	} else {
		y = f.stack(c, y)
	}
	for _, key := range f.Keys {
		heading(key, smallSize, ink)
	}
	return c.write(w, figureWidth, y+2*gap)
}

// axes is a panel with its scales. Its margins are known before its place.
type axes struct {
	Panel
	x, y           scale // of the area within the axes
	xTicks, yTicks []tick
	bottom         bool    // the axis is labelled below
	by             float64 // divides the labels of y
	besideTicks    float64 // from the axis to its label
}

func (f Figure) stack(c *svg, y float64) float64 {
	margin, shared := 0.0, nothing()
	var all []*axes
	for i, p := range f.Panels {
		a := newAxes(p, stackedArea)
		a.bottom = i == len(f.Panels)-1
		shared.add(a.x.low, a.x.high)
		margin = max(margin, a.margin())
		all = append(all, a)
	}
	for _, a := range all {
		a.x = scale{shared.low, shared.high, gap + margin, figureWidth - 4*gap}
		a.tick(f.Ticks)
		y = a.draw(c, y+a.above(), stackedArea) + panelGap/2
	}
	return y
}

// beside draws the panels next to each other, with their axes at one height.
func (f Figure) beside(c *svg, y float64) float64 {
	width := (figureWidth - 2*gap - panelGap*float64(len(f.Panels)-1)) / float64(max(len(f.Panels), 1))
	top, bottom, left := y, y, gap
	var all []*axes
	for _, p := range f.Panels {
		a := newAxes(p, besideArea)
		a.bottom = true
		a.x.from, a.x.to = left+a.margin(), left+width-gap
		a.tick(0)
		top = max(top, y+a.above())
		left += width + panelGap
		all = append(all, a)
	}
	for _, a := range all {
		bottom = max(bottom, a.draw(c, top, besideArea))
	}
	return bottom
}

func newAxes(p Panel, height float64) *axes {
	a := &axes{Panel: p}
	xs, ys := p.spans()
	by, name := thousands(ys)
	if a.by = by; name != "" {
		a.Y += ", " + name
	}
	a.x.low, a.x.high, a.y.low, a.y.high = xs.low, xs.high, ys.low, ys.high
	a.yTicks = ticks(span{ys.low / by, ys.high / by}, int(height/(2.2*typeSize)), 0)
	for _, t := range a.yTicks {
		a.besideTicks = max(a.besideTicks, textWidth(t.label, typeSize))
	}
	a.besideTicks += tickLength + gap
	return a
}

// tick places as many ticks on the horizontal axis as their labels leave room for, step apart; 0 means round steps.
func (a *axes) tick(step int) {
	if len(a.Names) > 0 {
		return
	}
	const closest = 20 // distance of two ticks, in points
	for most := int((a.x.to - a.x.from) / closest); most > 1; most-- {
		a.xTicks = ticks(span{a.x.low, a.x.high}, most, float64(step))
		room := 0.0
		for _, t := range a.xTicks {
			room += textWidth(t.label, typeSize) + 3*gap
		}
		if room <= a.x.to-a.x.from {
			return
		}
	}
}

func (p Panel) spans() (x, y span) {
	x, y = nothing(), nothing()
	dots, base := false, p.Zero
	for _, s := range p.Series {
		x.add(s.X...)
		interval := &y
		if s.Across {
			interval = &x
		}
		interval.add(s.Low...)
		interval.add(s.High...)
		if s.Kind == Rule {
			continue
		}
		y.add(s.Y...)
		dots = dots || s.Kind == Dots
		base = base || s.Kind == Bars
		for _, v := range s.Values {
			y.add(v...)
		}
		beside := s.Width // of boxes; bars stand side by side
		if s.Kind == Bars {
			beside /= 2
		}
		for _, v := range s.X {
			x.add(v-beside, v+beside)
		}
	}
	if base && y.low <= y.high {
		y.add(0)
	}
	const room = 0.05 // keeps points off the axes
	below, beside := room, 0.0
	if base && y.low == 0 {
		below = 0
	}
	if dots {
		beside = room
	}
	x, y = x.wide(beside, beside), y.wide(below, room)
	if n := len(p.Names); n > 0 {
		x = span{-0.5, float64(n) - 0.5}
	}
	return x, y
}

func (a *axes) margin() float64 {
	return a.besideTicks + float64(len(wrap(a.Y, typeSize, labelRoom)))*lineHeight
}

// labelRoom is the maximal length of a line of the vertical axis's label.
const labelRoom = stackedArea + 2*gap

// above returns the height needed above a panel's axes, for title and legend.
func (a *axes) above() float64 {
	h := gap + float64(len(a.legend()))*lineHeight
	if a.Title != "" {
		h += lineHeight
	}
	return h
}

// legend breaks the names of two series or more into rows as wide as the axes.
func (a *axes) legend() (rows [][]int) {
	named := func(s Series) bool { return s.Name != "" }
	if i := slices.IndexFunc(a.Series, named); i < 0 || !slices.ContainsFunc(a.Series[i+1:], named) {
		return nil
	}
	x := 0.0
	for i, s := range a.Series {
		if s.Name == "" {
			continue
		}
		w := keyWidth + textWidth(s.Name, smallSize) + 3*gap
		if x+w > a.x.to-a.x.from || len(rows) == 0 {
			rows, x = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], i)
		x += w
	}
	return rows
}

// draw draws a panel whose axes begin at top, and returns where it ends.
func (a *axes) draw(c *svg, top, height float64) float64 {
	left, right, bottom := a.x.from, a.x.to, top+height
	a.y.from, a.y.to = bottom, top
	for _, t := range a.xTicks {
		x := a.x.at(t.value)
		c.line(stroke{grid, 0.5, false}, point{x, bottom}, point{x, top})
	}
	for _, t := range a.yTicks {
		y := a.y.at(t.value * a.by)
		c.line(stroke{grid, 0.5, false}, point{left, y}, point{right, y})
	}
	for _, kind := range []Kind{Bars, Line, Boxes, Rule, Dots} { // first what covers most
		for i, s := range a.Series {
			if s.Kind == kind {
				a.series(c, s, palette[i%len(palette)])
			}
		}
	}
	axis := stroke{ink, 0.7, false}
	c.line(axis, point{left, top}, point{left, bottom}, point{right, bottom})
	for _, t := range a.yTicks {
		y := a.y.at(t.value * a.by)
		c.line(axis, point{left - tickLength, y}, point{left, y})
		c.text(label{at: point{left - tickLength - gap/2, y + typeSize/3}, text: t.label, anchor: "end"})
	}
	for _, t := range a.xTicks {
		x := a.x.at(t.value)
		c.line(axis, point{x, bottom}, point{x, bottom + tickLength})
	}
	a.drawAbove(c, top-a.above())
	lines := wrap(a.Y, typeSize, labelRoom)
	for i, line := range lines {
		x := left - a.besideTicks - float64(len(lines)-1-i)*lineHeight - gap/2
		c.text(label{at: point{x, top + height/2}, text: line, anchor: "middle", up: true})
	}
	if !a.bottom {
		return bottom
	}
	return a.drawBelow(c, bottom)
}

func (a *axes) drawAbove(c *svg, y float64) {
	if a.Title != "" {
		y += lineHeight
		c.text(label{at: point{(a.x.from + a.x.to) / 2, y}, text: a.Title, anchor: "middle"})
	}
	for _, row := range a.legend() {
		y += lineHeight
		x := a.x.from
		for _, i := range row {
			s, colour, middle, end := a.Series[i], palette[i%len(palette)], y-smallSize/3, x+keyWidth-gap
			switch s.Kind {
			case Dots:
				c.disc(point{x + keyWidth/2, middle}, colour)
			case Bars:
				c.area(colour, 1, point{x, middle - 3}, point{end, middle - 3}, point{end, middle + 3}, point{x, middle + 3})
			default:
				c.line(stroke{colour, lineWidth, s.Kind == Rule}, point{x, middle}, point{end, middle})
			}
			c.text(label{at: point{x + keyWidth, y}, text: s.Name, size: smallSize})
			x += keyWidth + textWidth(s.Name, smallSize) + 3*gap
		}
	}
}

// drawBelow draws the labels of ticks, the names and the axis label below the axis, and returns where they end.
func (a *axes) drawBelow(c *svg, y float64) float64 {
	y += tickLength + gap/2
	width, most := a.x.to-a.x.from, 0
	write := func(x float64, lines []string, at float64) {
		most = max(most, len(lines))
		for i, line := range lines {
			c.text(label{at: point{x, at + float64(i+1)*lineHeight - gap/2}, text: line, anchor: "middle"})
		}
	}
	for _, t := range a.xTicks {
		write(a.x.at(t.value), []string{t.label}, y)
	}
	for i, name := range a.Names {
		write(a.x.at(float64(i)), wrap(name, typeSize, width/float64(len(a.Names))-gap), y)
	}
	y += float64(most) * lineHeight
	if a.X == "" {
		return y
	}
	lines := wrap(a.X, typeSize, width+2*gap)
	write((a.x.from+a.x.to)/2, lines, y+gap/2)
	return y + gap/2 + float64(len(lines))*lineHeight
}

func (a *axes) at(x, y float64) point { return point{a.x.at(x), a.y.at(y)} }

func (a *axes) points(x, y []float64) (all []point) {
	for i := range x {
		all = append(all, a.at(x[i], y[i]))
	}
	return all
}

func (a *axes) series(c *svg, s Series, colour string) {
	pen := stroke{colour, lineWidth, false}
	switch s.Kind {
	case Line:
		from := 0
		for i := range len(s.X) + 1 { // a value that is not finite, or the end, ends a line
			if i < len(s.X) && finite(s.X[i], s.Y[i]) && (s.Low == nil || finite(s.Low[i], s.High[i])) {
				continue
			}
			if i > from && s.Low != nil {
				band := a.points(s.X[from:i], s.Low[from:i])
				slices.Reverse(band)
				c.area(colour, faint, append(a.points(s.X[from:i], s.High[from:i]), band...)...)
			}
			if i > from {
				c.line(pen, a.points(s.X[from:i], s.Y[from:i])...)
			}
			from = i + 1
		}
	case Dots:
		for i := range s.X {
			if finite(s.X[i], s.Y[i]) {
				a.dot(c, s, i, colour)
			}
		}
	case Bars:
		for i, x := range s.X {
			low, high := x-s.Width/2, x+s.Width/2
			bar := []point{a.at(low, 0), a.at(low, s.Y[i]), a.at(high, s.Y[i]), a.at(high, 0)}
			c.area(colour, faint, bar...)
			c.line(pen, bar...)
		}
	case Boxes:
		for i, x := range s.X {
			a.box(c, x, s.Width, s.Values[i])
		}
	case Rule:
		for _, x := range s.X {
			c.line(stroke{colour, lineWidth, true}, point{a.x.at(x), a.y.from}, point{a.x.at(x), a.y.to})
		}
	}
}

func (a *axes) dot(c *svg, s Series, i int, colour string) {
	if s.Low != nil && finite(s.Low[i], s.High[i]) {
		low, high, cap := a.at(s.X[i], s.Low[i]), a.at(s.X[i], s.High[i]), point{whiskerCap, 0}
		if s.Across {
			low, high, cap = a.at(s.Low[i], s.Y[i]), a.at(s.High[i], s.Y[i]), point{0, whiskerCap}
		}
		bar := stroke{colour, 1, false}
		c.line(bar, low, high)
		for _, end := range []point{low, high} {
			c.line(bar, point{end.x - cap.x, end.y - cap.y}, point{end.x + cap.x, end.y + cap.y})
		}
	}
	c.disc(a.at(s.X[i], s.Y[i]), colour)
}

func (a *axes) box(c *svg, x, width float64, values []float64) {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return
	}
	quantile := func(q float64) float64 { // interpolated as in R's type 7
		at := q * float64(len(v)-1)
		i := int(at)
		return a.y.at(v[i] + (at-float64(i))*(v[min(i+1, len(v)-1)]-v[i]))
	}
	pen := stroke{ink, 0.7, false}
	left, centre, right := a.x.at(x-width/2), a.x.at(x), a.x.at(x+width/2)
	q1, q2, q3 := quantile(0.25), quantile(0.5), quantile(0.75)
	c.line(pen, point{left, q1}, point{left, q3}, point{right, q3}, point{right, q1}, point{left, q1})
	c.line(stroke{ink, 1.2, false}, point{left, q2}, point{right, q2})
	c.line(pen, point{centre, q1}, point{centre, quantile(0)})
	c.line(pen, point{centre, q3}, point{centre, quantile(1)})
}

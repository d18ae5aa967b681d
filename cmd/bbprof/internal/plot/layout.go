package plot

import (
	"image/color"
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
	keyWidth    = 16.0
)

// Colours of lines and axes that are not data.
var (
	ink  = color.NRGBA{0, 0, 0, 0xff}
	pale = color.NRGBA{0x60, 0x60, 0x60, 0xff}
	grid = color.NRGBA{0xe0, 0xe0, 0xe0, 0xff}
)

// palette is told apart by most eyes and in grey (Okabe and Ito, "Color Universal Design", 2008).
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0, 0, 0, 0xff},
}

type layout struct {
	height float64
	labels []label // title, subject, machine and keys
	panels []panelLayout
}

type panelLayout struct {
	Panel
	x, y        scale // of the area within the axes
	xTicks      []tick
	yTicks      []tick
	names       []string // below the axis, instead of ticks
	bottom      bool     // the axis is labelled below
	by          float64  // divides the labels of y
	legend      []legendEntry
	labels      []label
	besideTicks float64 // from the axis to its label
}

// legendEntry is one series in a legend: a line or disc and its name.
type legendEntry struct {
	at     point
	name   string
	series int
}

func newLayout(f Figure) *layout {
	l := &layout{}
	y := gap
	heading := func(text string, size float64, colour color.NRGBA) {
		if text == "" {
			return
		}
		for _, line := range chop(text, size, figureWidth-2*gap) {
			y += lineSpacing * size
			l.labels = append(l.labels, label{at: point{gap, y}, text: line, size: size, colour: colour})
		}
	}
	heading(f.Title, typeSize, ink)
	heading(f.Subject, smallSize, pale)
	heading(f.Machine, smallSize, pale)
	y += gap
	if f.Beside {
		y = l.beside(f, y)
	} else {
		y = l.stack(f, y)
	}
	for _, key := range f.Keys {
		heading(key, smallSize, ink)
	}
	l.height = y + 2*gap
	return l
}

// stack places the panels below each other, with a common left margin and the last one's axis.
func (l *layout) stack(f Figure, y float64) float64 {
	margin, shared := 0.0, nothing()
	for _, p := range f.Panels {
		xs, _ := p.spans(len(f.Names))
		shared.add(xs.low, xs.high)
	}
	for i, p := range f.Panels {
		at := newPanelLayout(p, stackedArea, f.Names)
		at.x.low, at.x.high = shared.low, shared.high
		at.bottom = i == len(f.Panels)-1
		margin = max(margin, at.margin())
		l.panels = append(l.panels, at)
	}
	for i := range l.panels {
		p := &l.panels[i]
		p.Title, p.X = "", ""
		if p.bottom {
			p.X = f.X
		}
		p.x.from, p.x.to = gap+margin, figureWidth-4*gap
		p.tick(f.Ticks)
		y = p.place(y+p.above(), stackedArea) + panelGap/2
	}
	return y
}

// beside places the panels next to each other, with their axes at one height.
func (l *layout) beside(f Figure, y float64) float64 {
	width := (figureWidth - 2*gap - panelGap*float64(len(f.Panels)-1)) / float64(max(len(f.Panels), 1))
	top, bottom, left := y, y, gap
	for _, p := range f.Panels {
		at := newPanelLayout(p, besideArea, p.Names)
		at.bottom = true
		at.x.from, at.x.to = left+at.margin(), left+width-gap
		at.tick(0)
		top = max(top, y+at.above())
		left += width + panelGap
		l.panels = append(l.panels, at)
	}
	for i := range l.panels {
		bottom = max(bottom, l.panels[i].place(top, besideArea))
	}
	return bottom
}

// newPanelLayout computes a panel's ranges and the ticks of its vertical axis.
func newPanelLayout(p Panel, height float64, names []string) panelLayout {
	at := panelLayout{Panel: p, names: names}
	xs, ys := p.spans(len(names))
	by, name := thousands(ys)
	if at.by = by; name != "" {
		at.Y += ", " + name
	}
	at.x.low, at.x.high, at.y.low, at.y.high = xs.low, xs.high, ys.low, ys.high
	at.yTicks = ticks(span{ys.low / by, ys.high / by}, int(height/(2.2*typeSize)), 0)
	for _, t := range at.yTicks {
		at.besideTicks = max(at.besideTicks, textWidth(t.label, typeSize))
	}
	at.besideTicks += tickLength + gap
	return at
}

// tick places as many ticks on the horizontal axis as their labels leave room for, step apart; 0 means round steps.
func (p *panelLayout) tick(step int) {
	if len(p.names) > 0 {
		return
	}
	const closest = 20 // distance of two ticks, in points
	for most := int((p.x.to - p.x.from) / closest); most > 1; most-- {
		p.xTicks = ticks(span{p.x.low, p.x.high}, most, float64(step))
		room := 0.0
		for _, t := range p.xTicks {
			room += textWidth(t.label, typeSize) + 3*gap
		}
		if room <= p.x.to-p.x.from {
			return
		}
	}
}

func (p Panel) spans(names int) (x, y span) {
	x, y = nothing(), nothing()
	dots, base := false, p.Zero
	for _, s := range p.Series {
		x.add(s.X...)
		switch {
		case s.Across:
			x.add(s.Low...)
			x.add(s.High...)
		default:
			y.add(s.Low...)
			y.add(s.High...)
		}
		if s.Kind == Rule {
			continue
		}
		y.add(s.Y...)
		dots = dots || s.Kind == Dots
		base = base || s.Kind == Bars
		for i, v := range s.Values {
			y.add(v...)
			x.add(s.X[i]-s.Width, s.X[i]+s.Width)
		}
		if s.Kind == Bars {
			for _, v := range s.X {
				x.add(v-s.Width/2, v+s.Width/2)
			}
		}
	}
	if base && y.low <= y.high {
		y.add(0)
	}
	const room = 0.05 // keeps points off the axes
	below := room
	if base && y.low == 0 {
		below = 0
	}
	y = y.wide(below, room)
	if names > 0 {
		return span{-0.5, float64(names) - 0.5}, y
	}
	if dots {
		return x.wide(room, room), y
	}
	return x.wide(0, 0), y
}

func (p *panelLayout) margin() float64 {
	lines := len(wrap(p.Y, typeSize, p.labelRoom()))
	return p.besideTicks + float64(lines)*lineSpacing*typeSize
}

// labelRoom is the maximal length of a line of the vertical axis's label.
func (p *panelLayout) labelRoom() float64 { return stackedArea + 2*gap }

// above returns the height needed above a panel's axes, for title and legend.
func (p *panelLayout) above() float64 {
	h := gap
	if p.Title != "" {
		h += lineSpacing * typeSize
	}
	return h + float64(len(p.legendRows()))*lineSpacing*typeSize
}

// named returns the series to list in a legend, if there are two or more.
func (p *panelLayout) named() (series []int) {
	for i, s := range p.Series {
		if s.Name != "" {
			series = append(series, i)
		}
	}
	if len(series) < 2 {
		return nil
	}
	return series
}

// legendRows breaks the legend into rows as wide as the axes.
func (p *panelLayout) legendRows() (rows [][]int) {
	x, width := 0.0, p.x.to-p.x.from
	for _, i := range p.named() {
		w := keyWidth + textWidth(p.Series[i].Name, smallSize) + 3*gap
		if x+w > width || len(rows) == 0 {
			rows, x = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], i)
		x += w
	}
	return rows
}

func (p *panelLayout) place(top, height float64) float64 {
	left, right, y := p.x.from, p.x.to, top-p.above()
	if p.Title != "" {
		y += lineSpacing * typeSize
		p.labels = append(p.labels, label{at: point{(left + right) / 2, y}, text: p.Title, anchor: middle, size: typeSize, colour: ink})
	}
	for _, row := range p.legendRows() {
		y += lineSpacing * typeSize
		x := left
		for _, i := range row {
			p.legend = append(p.legend, legendEntry{point{x, y}, p.Series[i].Name, i})
			x += keyWidth + textWidth(p.Series[i].Name, smallSize) + 3*gap
		}
	}
	p.y.from, p.y.to = top+height, top
	lines := wrap(p.Y, typeSize, p.labelRoom())
	for i, line := range lines {
		x := left - p.besideTicks - float64(len(lines)-1-i)*lineSpacing*typeSize - gap/2
		p.labels = append(p.labels, label{at: point{x, top + height/2}, text: line, anchor: middle, size: typeSize, colour: ink, up: true})
	}
	y = top + height
	if !p.bottom {
		return y
	}
	return p.placeBelow(y)
}

// placeBelow places the labels of ticks, the names and the axis label below the axis.
func (p *panelLayout) placeBelow(y float64) float64 {
	y += tickLength + gap/2
	most := 0
	write := func(x float64, lines []string, at float64) {
		most = max(most, len(lines))
		for i, line := range lines {
			p.labels = append(p.labels, label{at: point{x, at + float64(i+1)*lineSpacing*typeSize - gap/2}, text: line, anchor: middle, size: typeSize, colour: ink})
		}
	}
	for _, t := range p.xTicks {
		write(p.x.at(t.value), []string{t.label}, y)
	}
	for i, name := range p.names {
		write(p.x.at(float64(i)), wrap(name, typeSize, (p.x.to-p.x.from)/float64(len(p.names))-gap), y)
	}
	y += float64(most) * lineSpacing * typeSize
	if p.X == "" {
		return y
	}
	lines := wrap(p.X, typeSize, p.x.to-p.x.from+2*gap)
	write((p.x.from+p.x.to)/2, lines, y+gap/2)
	return y + gap/2 + float64(len(lines))*lineSpacing*typeSize
}

func colourOf(series int) color.NRGBA { return palette[series%len(palette)] }

func (l *layout) draw(c canvas) {
	for i := range l.panels {
		l.panels[i].draw(c)
	}
	for _, text := range l.labels {
		c.text(text)
	}
}

func (p *panelLayout) draw(c canvas) {
	thin := stroke{grid, 0.5, false}
	for _, t := range p.xTicks {
		x := p.x.at(t.value)
		c.line([]point{{x, p.y.from}, {x, p.y.to}}, thin)
	}
	for _, t := range p.yTicks {
		y := p.y.at(t.value * p.by)
		c.line([]point{{p.x.from, y}, {p.x.to, y}}, thin)
	}
	// Draw first what covers most.
	for _, kind := range []Kind{Bars, Line, Boxes, Rule, Dots} {
		for i, s := range p.Series {
			if s.Kind == kind {
				p.series(c, s, colourOf(i))
			}
		}
	}
	axis := stroke{ink, 0.7, false}
	c.line([]point{{p.x.from, p.y.to}, {p.x.from, p.y.from}, {p.x.to, p.y.from}}, axis)
	for _, t := range p.yTicks {
		y := p.y.at(t.value * p.by)
		c.line([]point{{p.x.from - tickLength, y}, {p.x.from, y}}, axis)
		c.text(label{at: point{p.x.from - tickLength - gap/2, y + typeSize/3}, text: t.label, anchor: end, size: typeSize, colour: ink})
	}
	for _, t := range p.xTicks {
		x := p.x.at(t.value)
		c.line([]point{{x, p.y.from}, {x, p.y.from + tickLength}}, axis)
	}
	for _, e := range p.legend {
		p.key(c, e)
	}
	for _, text := range p.labels {
		c.text(text)
	}
}

func (p *panelLayout) key(c canvas, e legendEntry) {
	s, y := p.Series[e.series], e.at.y-smallSize/3
	colour := colourOf(e.series)
	switch s.Kind {
	case Dots:
		c.disc(point{e.at.x + keyWidth/2, y}, dotRadius, colour)
	case Bars:
		c.area([]point{{e.at.x, y - 3}, {e.at.x + keyWidth - gap, y - 3}, {e.at.x + keyWidth - gap, y + 3}, {e.at.x, y + 3}}, colour)
	default:
		c.line([]point{{e.at.x, y}, {e.at.x + keyWidth - gap, y}}, stroke{colour, lineWidth, s.Kind == Rule})
	}
	c.text(label{at: point{e.at.x + keyWidth, e.at.y}, text: e.name, size: smallSize, colour: ink})
}

const (
	lineWidth  = 0.9
	dotRadius  = 2.2
	bandAlpha  = 0x40
	whiskerCap = 2.0
)

func (p *panelLayout) series(c canvas, s Series, colour color.NRGBA) {
	at := func(x, y float64) point { return point{p.x.at(x), p.y.at(y)} }
	faint := colour
	faint.A = bandAlpha
	switch s.Kind {
	case Line:
		for _, run := range s.runs() {
			var line, band []point
			for i := run[0]; i < run[1]; i++ {
				line = append(line, at(s.X[i], s.Y[i]))
			}
			if s.Low != nil {
				for i := run[0]; i < run[1]; i++ {
					band = append(band, at(s.X[i], s.High[i]))
				}
				for i := run[1] - 1; i >= run[0]; i-- {
					band = append(band, at(s.X[i], s.Low[i]))
				}
				c.area(band, faint)
			}
			c.line(line, stroke{colour, lineWidth, false})
		}
	case Dots:
		for i := range s.X {
			if finite(s.X[i]) && finite(s.Y[i]) {
				p.dot(c, s, i, colour)
			}
		}
	case Bars:
		for i, x := range s.X {
			c.area([]point{at(x-s.Width/2, 0), at(x-s.Width/2, s.Y[i]), at(x+s.Width/2, s.Y[i]), at(x+s.Width/2, 0)}, faint)
			c.line([]point{at(x-s.Width/2, 0), at(x-s.Width/2, s.Y[i]), at(x+s.Width/2, s.Y[i]), at(x+s.Width/2, 0)}, stroke{colour, lineWidth, false})
		}
	case Boxes:
		for i, x := range s.X {
			p.box(c, x, s.Width, s.Values[i])
		}
	case Rule:
		for _, x := range s.X {
			c.line([]point{{p.x.at(x), p.y.from}, {p.x.at(x), p.y.to}}, stroke{colour, lineWidth, true})
		}
	}
}

// runs returns the ranges of a line whose values are all finite.
func (s Series) runs() (runs [][2]int) {
	from := -1
	for i := range s.X {
		ok := finite(s.X[i]) && finite(s.Y[i]) && (s.Low == nil || finite(s.Low[i]) && finite(s.High[i]))
		switch {
		case ok && from < 0:
			from = i
		case !ok && from >= 0:
			runs, from = append(runs, [2]int{from, i}), -1
		}
	}
	if from >= 0 {
		runs = append(runs, [2]int{from, len(s.X)})
	}
	return runs
}

// dot draws a point with its interval.
func (p *panelLayout) dot(c canvas, s Series, i int, colour color.NRGBA) {
	x, y := p.x.at(s.X[i]), p.y.at(s.Y[i])
	if s.Low != nil && finite(s.Low[i]) && finite(s.High[i]) {
		bar := stroke{colour, 1, false}
		if s.Across {
			low, high := p.x.at(s.Low[i]), p.x.at(s.High[i])
			c.line([]point{{low, y}, {high, y}}, bar)
			c.line([]point{{low, y - whiskerCap}, {low, y + whiskerCap}}, bar)
			c.line([]point{{high, y - whiskerCap}, {high, y + whiskerCap}}, bar)
		} else {
			low, high := p.y.at(s.Low[i]), p.y.at(s.High[i])
			c.line([]point{{x, low}, {x, high}}, bar)
			c.line([]point{{x - whiskerCap, low}, {x + whiskerCap, low}}, bar)
			c.line([]point{{x - whiskerCap, high}, {x + whiskerCap, high}}, bar)
		}
	}
	c.disc(point{x, y}, dotRadius, colour)
}

// box draws the median, the quartiles and the extremes of some values.
func (p *panelLayout) box(c canvas, x, width float64, values []float64) {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return
	}
	quantile := func(q float64) float64 { // interpolated as in R's type 7
		at := q * float64(len(v)-1)
		i := int(at)
		return v[i] + (at-float64(i))*(v[min(i+1, len(v)-1)]-v[i])
	}
	pen := stroke{ink, 0.7, false}
	left, centre, right := p.x.at(x-width/2), p.x.at(x), p.x.at(x+width/2)
	q1, q2, q3 := p.y.at(quantile(0.25)), p.y.at(quantile(0.5)), p.y.at(quantile(0.75))
	c.line([]point{{left, q1}, {left, q3}, {right, q3}, {right, q1}, {left, q1}}, pen)
	c.line([]point{{left, q2}, {right, q2}}, stroke{ink, 1.2, false})
	c.line([]point{{centre, q1}, {centre, p.y.at(v[0])}}, pen)
	c.line([]point{{centre, q3}, {centre, p.y.at(v[len(v)-1])}}, pen)
}

package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// colors is the number of line colours in the style sheet.
const colors = 6

type chart struct {
	strings.Builder
	width, height            float64
	left, right, top, bottom float64               // margins
	x, y                     func(float64) float64 // to shares of the plot area
}

func newChart(label string, width, height float64) *chart {
	c := &chart{width: width, height: height, left: 52, right: 28, top: 10, bottom: 40}
	c.add(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s"><title>%[3]s</title>`, width, height, template.HTMLEscapeString(label))
	return c
}

func (c *chart) add(format string, args ...any) { fmt.Fprintf(c, format, args...) }

func (c *chart) px(v float64) float64 { return c.left + c.x(v)*(c.width-c.left-c.right) }
func (c *chart) py(v float64) float64 { return c.height - c.bottom - c.y(v)*(c.height-c.top-c.bottom) }

type tick struct {
	at   float64
	name string
}

func (c *chart) axes(xs, ys []tick, xName, yName string) {
	for _, t := range xs {
		c.add(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`,
			c.px(t.at), c.px(t.at), c.top, c.height-c.bottom, c.px(t.at), c.height-c.bottom+15, t.name)
	}
	for _, t := range ys {
		c.add(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			c.left, c.width-c.right, c.py(t.at), c.py(t.at), c.left-6, c.py(t.at)+4, t.name)
	}
	c.add(`<text class="axis" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, (c.left+c.width-c.right)/2, c.height-6, xName)
	middle := (c.top + c.height - c.bottom) / 2
	c.add(`<text class="axis" x="12" y="%.1f" text-anchor="middle" transform="rotate(-90 12 %.1f)">%s</text>`, middle, middle, yName)
}

func (c *chart) done() template.HTML {
	return template.HTML(c.String() + "</svg>")
}

func linear(to float64) func(float64) float64 {
	return func(v float64) float64 { return min(1, max(0, v/to)) }
}

func logarithmic(from, to float64) func(float64) float64 {
	return func(v float64) float64 {
		return min(1, max(0, math.Log(max(v, from)/from)/math.Log(to/from)))
	}
}

var shares = []tick{{0, "0"}, {0.25, "25 %"}, {0.5, "50 %"}, {0.75, "75 %"}, {1, "100 %"}}

// line draws a cumulative distribution, in steps merged to pixels.
func (c *chart) distribution(values []float64, all int, class string) {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	c.add(`<path class="line %s" d="M%.1f %.1f`, class, c.left, c.py(0))
	last := math.Inf(-1)
	for i, v := range sorted {
		x := c.px(v)
		if x-last < 0.5 && i < len(sorted)-1 && c.px(sorted[i+1])-last < 0.5 {
			continue
		}
		last = x
		c.add("L%.1f %.1f", x, c.py(float64(i+1)/float64(all)))
	}
	c.add(`L%.1f %.1f"/>`, c.width-c.right, c.py(float64(len(sorted))/float64(max(1, all))))
}

func errorCurves(p *Page) template.HTML {
	c := newChart("Share of blocks predicted within an error, by model", 640, 320)
	c.x, c.y = logarithmic(0.001, 10), linear(1)
	c.axes([]tick{{0.001, "0.1 %"}, {0.01, "1 %"}, {0.1, "10 %"}, {1, "100 %"}, {10, "1000 %"}}, shares,
		"error, |predicted − measured| / measured", "share of blocks")
	for i, m := range p.Models {
		var errors []float64
		for k := range p.Measured {
			if q := m.Predictions[k]; q.Known() {
				errors = append(errors, score.Error(&p.Measured[k], q))
			}
		}
		c.distribution(errors, len(p.Measured), fmt.Sprintf("c%d", i%colors+1))
	}
	return c.done()
}

// heatLevels is the number of heat-map colours in the style sheet.
const heatLevels = 8

// bins is the number of bins per axis of a heat map: of 0.1 cycles up to 10, or of 7 % from 0.1 to 100.
const bins = 100

// heatAxis is linear, or logarithmic if half of the blocks take less than a cycle.
func heatAxis(blocks []score.Block) (from, to float64, axis func(float64) float64, ticks []tick) {
	fast := 0
	for _, b := range blocks {
		if b.Cycles < 1 {
			fast++
		}
	}
	if 2*fast >= len(blocks) {
		return 0.1, 100, logarithmic(0.1, 100), []tick{{0.1, "0.1"}, {1, "1"}, {10, "10"}, {100, "100"}}
	}
	for v := 0; v <= 10; v += 2 {
		ticks = append(ticks, tick{float64(v), strconv.Itoa(v)})
	}
	return 0, 10, linear(10), ticks
}

// heatMap plots predicted against measured cycles, with logarithmic colours.
func heatMap(p *Page, m *score.ModelResult) template.HTML {
	c := newChart("Predicted against measured cycles of "+m.Name, 360, 360)
	from, to, axis, ticks := heatAxis(p.Measured)
	c.x, c.y = axis, axis
	outside := func(v float64) bool { return v < from || v >= to }
	bin := func(v float64) int { return int(axis(v) * bins) }
	var heat [bins][bins]int // by measured, then predicted
	most, left := 0, 0
	for i, b := range p.Measured {
		switch q := m.Predictions[i]; {
		case !q.Known():
		case outside(b.Cycles) || outside(q.Cycles):
			left++
		default:
			n := &heat[bin(b.Cycles)][bin(q.Cycles)]
			*n++
			most = max(most, *n)
		}
	}
	name := "measured, cycles"
	if left > 0 {
		name += fmt.Sprintf(" (of %s outside)", words.Plural(left, "block"))
	}
	c.axes(ticks, ticks, name, "predicted, cycles")
	paths := make([]strings.Builder, heatLevels)
	w, h := (c.width-c.left-c.right)/bins, (c.height-c.top-c.bottom)/bins
	for x, column := range heat {
		for y, n := range column {
			if n == 0 {
				continue
			}
			level := 0
			if most > 1 {
				level = min(heatLevels-1, int(heatLevels*math.Log(float64(n))/math.Log(float64(most))))
			}
			fmt.Fprintf(&paths[level], "M%.1f %.1fh%.1fv-%.1fh-%.1fz", c.left+float64(x)*w, c.height-c.bottom-float64(y)*h, w, h, w)
		}
	}
	for level := range paths {
		if paths[level].Len() > 0 {
			c.add(`<path class="h%d" d="%s"/>`, level, paths[level].String())
		}
	}
	c.add(`<line class="diagonal" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, c.px(from), c.py(from), c.px(to), c.py(to))
	return c.done()
}

package resources

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/markup"
)

type class struct {
	uses  []float64 // their means
	forms []string
}

// classes groups the forms by use, the largest first. Unmeasured uses count as 0.
func (t *Table) classes() (list []class) {
	const step = 0.1 // cycles, or share of the use
	by := map[string]int{}
	for i := range t.Forms {
		var key strings.Builder
		for _, u := range t.Forms[i].Uses {
			width := max(step, u.Share*step)
			fmt.Fprintf(&key, "%.2f ", math.Round(u.Share/width)*width)
		}
		at, known := by[key.String()]
		if !known {
			at = len(list)
			by[key.String()] = at
			list = append(list, class{uses: make([]float64, len(t.Resources))})
		}
		c := &list[at]
		c.forms = append(c.forms, t.Forms[i].Name)
		for r, u := range t.Forms[i].Uses {
			c.uses[r] += (u.Share - c.uses[r]) / float64(len(c.forms))
		}
	}
	slices.SortStableFunc(list, func(a, b class) int { return cmp.Compare(len(b.forms), len(a.forms)) })
	return list
}

// WritePage writes a self-contained page: the resources, and what each class of forms uses of them.
func (t *Table) WritePage(w io.Writer) error {
	var d markup.Writer
	title := "What instructions compete for"
	if t.Core != "" {
		title += " on " + t.Core
	}
	d.Printf(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>%s</title>
<style>body{font:15px/1.4 sans-serif;max-width:75em;margin:2em auto;padding:0 1em}td,th{text-align:left;padding:.1em .8em .1em 0;vertical-align:top}
text{font:11px sans-serif;fill:CanvasText}rect{fill:#1769aa}</style></head>
<body><h1>%s</h1><p>%s, %s. A resource is a mix that saturates it; a use is the cycles that one instruction adds to it.</p>
<table><tr><th></th><th>resource</th><th>saturated by</th><th>a cycle</th></tr>
`, title, title, t.CPU, t.Made)
	for i, r := range t.Resources {
		var kernel []string
		for _, k := range r.Kernel {
			kernel = append(kernel, fmt.Sprintf("%d × %s", k.N, k.Form))
		}
		d.Printf("<tr><td>%s</td><td>%s</td><td>%s</td><td>%.2f</td></tr>\n", letter(i), r.Name, strings.Join(kernel, ", "), r.PerCycle)
	}
	d.Printf("</table>\n<h2>Classes of forms</h2>\n<div style=overflow-x:auto>%s</div>\n</body></html>\n", t.matrix())
	_, err := io.WriteString(w, string(d.HTML()))
	return err
}

// letter numbers resources A to Z, then A1 to Z1, and so on.
func letter(i int) string {
	s := string(rune('A' + i%26))
	if i >= 26 {
		s += strconv.Itoa(i / 26)
	}
	return s
}

// matrix draws the largest classes against the resources. The number is the use in cycles; darker means a larger part of
// the form's time.
func (t *Table) matrix() markup.HTML {
	const most, cell, row, names, shown = 80, 44, 18, 440, 3
	list := t.classes()
	list = list[:min(len(list), most)]
	var d markup.Writer
	width, height := names+cell*len(t.Resources)+10, row*(len(list)+1)+6
	d.Printf(`<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="uses by class and resource">`, width, height, width, height)
	for r := range t.Resources {
		d.Printf(`<text x="%d" y="12">%s</text>`, names+cell*r+cell/2, letter(r))
	}
	for i, c := range list {
		y, largest := row*(i+1), 0.0
		for _, u := range c.uses {
			largest = max(largest, u)
		}
		text := strings.Join(c.forms[:min(len(c.forms), shown)], "; ")
		if len(text) > 58 {
			text = text[:58] + "…"
		}
		d.Printf(`<text x="0" y="%d">%s (%d)<title>%s</title></text>`, y+13, text, len(c.forms), strings.Join(c.forms, "; "))
		for r, u := range c.uses {
			if u >= 0.03 { // less is noise
				d.Printf(`<rect x="%d" y="%d" width="%d" height="%d" fill-opacity="%.2f"/><text x="%d" y="%d">%.2f</text>`,
					names+cell*r, y, cell-2, row-2, 0.1+0.7*u/largest, names+cell*r+6, y+13, u)
			}
		}
	}
	d.Printf("</svg>")
	return d.HTML()
}

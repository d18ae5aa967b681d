package report

import (
	_ "embed"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/markup"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

var (
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

func Write(w io.Writer, p *Page) error {
	d := &document{Page: p, evidence: p.usual(), rows: map[int]bool{}}
	for _, b := range p.Measured {
		d.weight += b.Weight
	}
	list, by := p.shown()
	for _, i := range list {
		d.rows[i] = true
	}
	d.head()
	d.measured()
	if len(p.Models) > 0 {
		d.models()
		d.groups()
		d.mistakes()
	}
	d.blocks(list, by)
	d.Printf("</main>\n<script>%s</script>\n</body>\n</html>\n", markup.HTML(script))
	_, err := io.WriteString(w, string(d.HTML()))
	return err
}

type document struct {
	markup.Writer
	*Page
	evidence string       // of most blocks, shown once
	weight   float64      // of all blocks
	rows     map[int]bool // blocks in the table
}

func (d *document) head() {
	title := "Measured blocks"
	if d.Core != "" {
		title += " on " + d.Core
	}
	d.Printf(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>%s</title>
<style>%s</style>
</head>
<body>
<header>
<h1>%s</h1>
<p class="made">%s <button id="theme" type="button">Light or dark</button></p>
</header>
<main>
`, title, markup.HTML(style), title, d.Made)
}

func (d *document) measured() {
	d.Printf("<section>\n<h2>What was measured</h2>\n" + `<dl class="facts">`)
	for _, f := range d.Facts {
		d.Printf("<div><dt>%s</dt><dd>%s</dd></div>", f.Name, f.Value)
	}
	if d.evidence != "" {
		d.Printf("<div><dt>Evidence, unless a block says otherwise</dt><dd>%s</dd></div>", d.evidence)
	}
	d.Printf("</dl>\n" + `<ul class="counts">`)
	for _, c := range []struct {
		n    int
		what string
	}{
		{len(d.Measured), "measured"}, {d.Rejections(), "rejected"},
		{d.Sensitive, "left out: another initial state or row gives other cycles"},
		{d.Repeated, "repeated in other rows"}} {
		if c.n > 0 {
			d.Printf("<li><b>%d</b> %s</li>", c.n, c.what)
		}
	}
	d.Printf("</ul>\n")
	if len(d.Rejected) > 0 {
		d.Printf("<h3>Rejected, by reason</h3>\n" + `<ul class="counts">`)
		for _, why := range words.ByCount(d.Rejected) {
			d.Printf("<li><b>%d</b> %s</li>", d.Rejected[why], why)
		}
		d.Printf("</ul>\n")
	}
	d.Printf("</section>\n\n")
}

func (d *document) models() {
	d.Printf("<section>\n<h2>Models</h2>\n" + `<div class="scroll"><table class="sortable" id="models">` + "\n" + `<thead><tr><th class="text">Model</th>`)
	for _, name := range FigureNames {
		d.Printf("<th>%s</th>", name)
	}
	d.Printf("</tr></thead>\n<tbody>")
	for i, m := range d.Models {
		class := ""
		if m.Kind != score.Candidate {
			class = "baseline"
		}
		d.Printf(`<tr class="%s"><td class="text">%s%s<small>%s</small></td>`, class, key(i), m.Name, m.Source)
		for _, f := range figuresOf(&m.Figures) {
			d.Printf(`<td data-v="%s">%s%s</td>`, sortable(float64(f.Number)), f.text, small(f.note))
		}
		d.Printf("</tr>\n")
	}
	d.Printf("</tbody></table></div>\n"+`<p class="note">Small print is the 95 %% interval. Excess is the error outside the measurement's interval. `+
		"Rows in italics are baselines, not models. %s</p>\n", d.Weighting())
	if len(d.Pairs) > 0 {
		d.Printf("<ul>")
		for _, pair := range d.Pairs {
			d.Printf("<li>%s</li>", pair)
		}
		d.Printf("</ul>\n")
	}
	d.Printf("<figure>%s<figcaption>", errorCurves(d.Page))
	for i, m := range d.Models {
		d.Printf("<span>%s%s</span> ", key(i), m.Name)
	}
	d.Printf("</figcaption></figure>\n" + `<div class="heats">`)
	for _, m := range d.Models {
		if m.Predicted > 0 {
			d.Printf("<figure>%s<figcaption>%s: a stronger colour is more blocks, on a logarithmic scale</figcaption></figure>", heatMap(d.Page, &m), m.Name)
		}
	}
	d.Printf("</div>\n</section>\n\n")
}

func key(model int) markup.HTML {
	return markup.Sprintf(`<span class="key c%d"></span>`, model%colors+1)
}

// small puts text below other text.
func small(text string) markup.HTML {
	if text == "" {
		return ""
	}
	return markup.Sprintf("<small>%s</small>", text)
}

func (d *document) groups() {
	d.Printf("<section>\n<h2>Error by group</h2>\n")
	for _, g := range d.Groupings {
		d.Printf("<h3>By %s</h3>\n"+`<div class="scroll"><table class="sortable">`+"\n"+`<thead><tr><th class="text">%s</th><th>Blocks</th>`, g.Name, g.Name)
		d.modelNames()
		d.Printf("</tr></thead>\n<tbody>")
		for i, group := range g.Groups {
			d.Printf(`<tr><td class="text">%s</td><td data-v="%d">%d</td>`, group.Name, len(group.Blocks), len(group.Blocks))
			for k, m := range d.Models {
				mape := float64(m.Groups[g.Name][i].MAPE)
				d.Printf(`<td class="bar c%d" style="--share:%.0f%%" data-v="%s">%s</td>`, k%colors+1, full(mape), sortable(mape), percent(mape))
			}
			d.Printf("</tr>\n")
		}
		d.Printf("</tbody></table></div>\n")
	}
	d.Printf(`<p class="note">MAPE in percent; a bar is full at 100 %%.</p>` + "\n</section>\n\n")
}

func (d *document) modelNames() {
	for i, m := range d.Models {
		d.Printf("<th>%s%s</th>", key(i), m.Name)
	}
}

func (d *document) mistakes() {
	d.Printf("<section>\n<h2>Most expensive mistakes</h2>\n")
	for _, m := range d.Models {
		if len(m.Mistakes) > 0 {
			d.Printf("<h3>%s</h3>\n"+`<ol class="mistakes">`, m.Name)
			for _, mistake := range m.Mistakes {
				d.offenders(mistake.String(), mistake.Worst, mistake.What, mistake.In)
			}
			d.Printf("</ol>\n")
			d.Printf(`<ul class="mistakes">`)
			d.offenders("the worst blocks, whatever they have in common", m.Worst, "", nil)
			d.Printf("</ul>\n")
		}
		if len(m.Failures) > 0 {
			d.Printf("<details><summary>%s: why there is no prediction</summary><ul>", m.Name)
			for _, why := range words.ByCount(m.Failures) {
				d.Printf("<li>%d: %s</li>", m.Failures[why], why)
			}
			d.Printf("</ul></details>\n")
		}
	}
	d.Printf("</section>\n\n")
}

// offenders lists some blocks, with a link to all that the table has.
func (d *document) offenders(title string, list []score.Offender, what string, all []int) {
	var rows []string
	for _, i := range all {
		if d.rows[i] {
			rows = append(rows, strconv.Itoa(i))
		}
	}
	d.Printf(`<li><details><summary>%s</summary>`, title)
	if len(rows) > 0 {
		d.Printf(`<p><a href="#blocks" data-name="%s" data-rows="%s">show %s of it below</a></p>`, what, strings.Join(rows, " "),
			words.Plural(len(rows), "block"))
	}
	d.Printf(`<div class="scroll"><table><thead><tr><th class="text">Block</th><th>Measured</th><th>Predicted</th>` +
		"<th>Share of error</th></tr></thead>\n<tbody>")
	for _, o := range list {
		b := &d.Measured[o.Block]
		d.Printf(`<tr><td class="text code">%s</td><td>%s</td><td>%s<small>%s</small></td><td>%s %%</td></tr>`+"\n",
			d.show(b), cycles(b), number(o.Predicted, 2), offBy(b, o.Predicted), o.Share.Percent())
	}
	d.Printf("</tbody></table></div></details></li>")
}

// show formats a block for the reader.
func (d *document) show(b *score.Block) markup.HTML {
	evidence := b.Evidence
	if evidence == d.evidence {
		evidence = ""
	}
	return markup.Sprintf("%s<small>%s</small>%s%s", score.Text(b.Hex), b.Hex, small(b.Line), small(evidence))
}

func cycles(b *score.Block) markup.HTML {
	return markup.Sprintf("%s<small>±%s %%</small>", number(b.Cycles, 2), number(100*(b.High-b.Low)/2/b.Cycles, 2))
}

func (d *document) blocks(list []int, by string) {
	d.Printf("<section>\n<h2>Blocks</h2>\n" +
		`<p><label>Search <input id="search" type="search" placeholder="imul, 4801c0, load …"></label> <span id="shown"></span></p>` + "\n")
	if left := len(d.Measured) - len(list); left > 0 {
		d.Printf(`<p class="note">%d blocks, %s; %d more are in the results.</p>`+"\n", len(list), by, left)
	}
	d.Printf(`<div class="scroll"><table class="sortable cards" id="blocks">` + "\n" +
		`<thead><tr><th class="text">Block</th><th class="text">Category</th><th class="text">Bound by</th><th>Cycles</th>`)
	weighted := d.weighted()
	if weighted {
		d.Printf("<th>Weight, %%</th>")
	}
	d.modelNames()
	d.Printf("</tr></thead>\n<tbody>")
	for _, i := range list {
		b := &d.Measured[i]
		d.Printf(`<tr data-row="%d"><td class="text code" data-label="Block">%s</td><td class="text" data-label="Category">%s</td>`+
			`<td class="text" data-label="Bound by">%s</td>`+
			`<td data-label="Cycles" data-v="%s">%s</td>`, i, d.show(b), b.Category, b.Bound, sortable(b.Cycles), cycles(b))
		if weighted {
			d.Printf(`<td data-label="Weight, %%" data-v="%s">%s</td>`, sortable(b.Weight), strconv.FormatFloat(100*b.Weight/d.weight, 'f', 3, 64))
		}
		for _, m := range d.Models {
			v := math.NaN()
			if p := m.Predictions[i]; p.Known() {
				v = p.Cycles
			}
			d.Printf(`<td data-label="%s" data-v="%s">%s<small>%s</small></td>`, m.Name, sortable(v), number(v, 2), offBy(b, v))
		}
		d.Printf("</tr>\n")
	}
	d.Printf("</tbody></table></div>\n</section>\n")
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/markup"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
)

// disagreeing is how far outside an interval a model may be, as a share of what was measured: two
// measurements of a form differ by less.
const disagreeing = 0.02

// disagree asks a model for the blocks that were measured and writes where it is wrong.
func (c *measuringForms) disagree(ctx context.Context, std streams, rows []instructions.Row, source predict.Source) error {
	blocks := instructions.Blocks(rows)
	predictions, err := source.Predict(ctx, blocks)
	if err != nil {
		return sourceError(c.models[0].name, err)
	}
	cycles := map[string]float64{}
	for i, p := range predictions {
		if p.Known() {
			cycles[blocks[i]] = p.Cycles
		}
	}
	list, judged := instructions.Disagreements(rows, cycles, disagreeing)
	total := 0
	for _, n := range judged {
		total += n
	}
	title := fmt.Sprintf("%s: %d of %d numbers are outside the measured interval by more than %.0f %%", source, len(list), total, 100*disagreeing)
	fmt.Fprintf(c.out.notes(std), "bbprof: %s\n", title)
	err = writeWhole(c.report, nil, func(w io.Writer) error {
		if strings.HasSuffix(c.report, ".html") {
			_, err := io.WriteString(w, string(disagreementPage(title, list, judged)))
			return err
		}
		t := newTable("rrrl", "measured", "model", "factor", "form", "what", "block")
		for _, d := range list {
			t.row(twoDigits(d.Measured.Cycles), twoDigits(d.Model), twoDigits(d.Times()), d.Row.Name, d.What, d.Block)
		}
		fmt.Fprintf(w, "%s\n\n%s", title, t)
		return nil
	})
	if err != nil {
		return fmt.Errorf("-report: %w", err)
	}
	return nil
}

const disagreementHead = `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>%s</title>
<meta name="viewport" content="width=device-width">
<style>:root{color-scheme:light dark}body{font:14px system-ui,sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}th,td{padding:.15em .8em;text-align:left;vertical-align:top}
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}th{white-space:nowrap}#all td:nth-child(-n+3){max-width:16em}#all td:last-child{min-width:20em}tbody tr:nth-child(odd) td{background:#8881}#all th{position:sticky;top:0;background:Canvas}
code{word-break:break-all;font-size:12px}summary{cursor:pointer;font-size:12px}input{font:inherit;width:20em}</style>
<h1>Where the model disagrees</h1><p>%s</p>
`

// Rows are hidden in the browser, for there are thousands.
const disagreementScript = `<script>document.getElementById("find").addEventListener("input",e=>{for(const r of document.querySelectorAll("#all tbody tr"))r.hidden=!r.textContent.includes(e.target.value)})</script>
`

func disagreementPage(title string, list []instructions.Disagreement, judged map[instructions.Kind]int) markup.HTML {
	var w markup.Writer
	w.Printf(disagreementHead, title, title)
	w.Printf(`<table><thead><tr><th><th class="n">compared<th class="n">outside<th class="n">model too fast<th class="n">model too slow<th class="n">by a factor of 2 or more<tbody>` + "\n")
	for kind, name := range []string{instructions.Latency: "latency", instructions.LoadLatency: "latency from an address", instructions.StoreToLoad: "latency through memory", instructions.Throughput: "throughput"} {
		kind := instructions.Kind(kind)
		if judged[kind] == 0 {
			continue
		}
		var outside, fast, large int
		for i := range list {
			if d := &list[i]; d.Kind == kind {
				outside++
				if d.Model < d.Measured.Cycles {
					fast++
				}
				if d.Times() >= 2 {
					large++
				}
			}
		}
		w.Printf(`<tr><td>%s<td class="n">%d<td class="n">%d<td class="n">%d<td class="n">%d<td class="n">%d`+"\n", name, judged[kind], outside, fast, outside-fast, large)
	}
	w.Printf(`</table>
<p><input id="find" placeholder="only rows that contain, such as vdiv"></p>
<table id="all"><thead><tr><th>form<th>LLVM's opcode<th>what<th class="n">measured<th class="n">interval<th class="n">model<th class="n">factor<th>block<tbody>
`)
	for i := range list {
		d := &list[i]
		w.Printf(`<tr><td>%s<td>%s<td>%s<td class="n">%.2f<td class="n">%.2f–%.2f<td class="n">%.2f<td class="n">%.2f<td><details><summary>%s</summary><code>bbprof %s</code></details>`+"\n",
			d.Row.Name, d.Row.Opcode, d.What, d.Measured.Cycles, d.Measured.Low, d.Measured.High, d.Model, d.Times(), shortBlock(d.Code), strings.TrimSpace("-init distinct "+d.Flags)+" -hex "+d.Block)
	}
	w.Printf("</table>\n%s</html>\n", markup.HTML(disagreementScript))
	return w.HTML()
}

// shortBlock is a block's text; of many instructions, the first and how many.
func shortBlock(code []byte) string {
	const most = 4
	insts, err := asm.Decode(code)
	if err != nil {
		return "the block"
	}
	if len(insts) > most {
		return fmt.Sprintf("%s; … (%d)", insts[0].Text(), len(insts))
	}
	return asm.Text(insts)
}

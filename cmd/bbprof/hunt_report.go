package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/hunt"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/internal/host"
)

// writeReports writes two files for each class: its assembly, and what an issue about it needs.
func (h *hunting) writeReports(source predict.Source, found *hunt.Found) error {
	if err := os.MkdirAll(h.report, 0o777); err != nil {
		return err
	}
	for i := range found.Classes {
		c := &found.Classes[i]
		name := fmt.Sprintf("%03d-%s", i+1, slug(c))
		e := predict.Explanation{Assembly: "\t.intel_syntax noprefix\n\t" + strings.ReplaceAll(c.Text, "; ", "\n\t") + "\n"}
		if x, ok := source.(predict.Explainer); ok {
			if said, err := x.Explain(context.Background(), c.Hex, name+".s"); err == nil {
				e = said
			}
		}
		if err := os.WriteFile(filepath.Join(h.report, name+".s"), []byte(e.Assembly), 0o666); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(h.report, name+".md"), []byte(h.reportOf(source, c, e)), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// slug is a class as part of a file's name.
func slug(c *hunt.Class) string {
	const longest = 40
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return ' '
	}, strings.Join(c.Holds(), " "))
	name = strings.Join(strings.Fields(name), "-")
	return name[:min(len(name), longest)]
}

func (h *hunting) reportOf(source predict.Source, c *hunt.Class, e predict.Explanation) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# %s: predicted %.2f cycles, measured %.2f\n\n", c.Text, c.Predicted.Cycles, c.Cycles)
	fmt.Fprintf(&w, "```\n%s```\n\n", e.Assembly)
	fmt.Fprintf(&w, "%s predicts %.3f cycles an iteration at steady state: %s by a factor of %.2f.\n\n", source, c.Predicted.Cycles, c.Sign, max(c.Predicted.Cycles/c.Cycles, c.Cycles/c.Predicted.Cycles))
	writeMeasurements(&w, c)
	info := host.Detect()
	fmt.Fprintf(&w, "\nCPU: %s (%s, family %#x, model %#x); kernel %s; %s.\n", strings.TrimSpace(info.Brand), info.Microarchitecture, info.Family, info.Model, host.Kernel(), versionText())
	fmt.Fprintf(&w, "To measure it again: `bbprof -init distinct -hex %s`\n", c.Hex)
	if r := c.Result; r != nil {
		w.WriteString("\n## Evidence\n\n")
		for _, line := range r.Evidence {
			fmt.Fprintf(&w, "- %s, %s: %s\n", line.Invariant, line.Kind, line.Detail)
		}
		for _, warning := range r.Warnings {
			fmt.Fprintf(&w, "- warning: %s\n", warning)
		}
	}
	writeVariants(&w, c)
	if e.Output != "" {
		fmt.Fprintf(&w, "\n## What the model says\n\n```\n$ %s\n%s```\n", e.Command, strings.TrimLeft(e.Output, "\n"))
	}
	return w.String()
}

func writeMeasurements(w *strings.Builder, c *hunt.Class) {
	w.WriteString("| measured | cycles | 95 % interval | |\n|---|---|---|---|\n")
	row := func(how string, m hunt.Measured) {
		switch {
		case m.Why != "":
			fmt.Fprintf(w, "| %s | | | %s |\n", how, strings.ReplaceAll(m.Why, "|", "/"))
		case c.Shared(m):
			fmt.Fprintf(w, "| %s | %.3f | %.3f to %.3f | |\n", how, m.Cycles, m.Low, m.High)
		default:
			fmt.Fprintf(w, "| %s | %.3f | %.3f to %.3f | does not show the error |\n", how, m.Cycles, m.Low, m.High)
		}
	}
	row(string(hunt.Survey), c.Measured)
	for _, how := range hunt.Opinions() {
		if m, ok := c.Opinions[how]; ok {
			row(string(how), m)
		}
	}
}

// writeVariants lists the neighbours that show the same error, and some that do not.
func writeVariants(w *strings.Builder, c *hunt.Class) {
	if len(c.Variants) == 0 {
		return
	}
	w.WriteString("\n## Neighbours\n\n| block | differs in | predicted | measured | the same error |\n|---|---|---|---|---|\n")
	for _, v := range c.Variants {
		same := "no"
		if v.Sign == c.Sign {
			same = "yes"
		}
		fmt.Fprintf(w, "| `%s` | %s | %.2f | %.2f | %s |\n", v.Text, v.Dimension, v.Predicted.Cycles, v.Cycles, same)
	}
}

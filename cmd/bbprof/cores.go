package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/cores"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

func coresCommand() *command {
	return &command{
		name:     "cores",
		summary:  "join results of several kinds of core: what differs, what they rank differently",
		synopsis: []string{"cores [flags] RESULT RESULT...  (files, or directories of bbprof dataset)"},
		about: `Blocks are joined by their bytes and what they were set to start from. A block differs if its cycles
on the two cores are further apart than -threshold and their intervals do not overlap; so also where
one of two alternatives is faster. Cycles are compared, not seconds.

-alternatives names a column: blocks with the same text there are ways to do the same, such as what
several compilers made of a loop. Listed are those sets of which each core prefers another block.
`,
		examples: `bbprof cores zen4.csv icelake.csv
bbprof cores -alternatives loop -joined both.csv zen4.parquet icelake.parquet zen5.parquet
`,
		exits: map[int]string{exitOK: "compared", exitUsage: "bad usage, or results that cannot be compared", exitInternal: ""},
		setup: func(f *flags) func(streams) error {
			c := joining{threshold: 0.05, most: 10}
			f.operands = &c.files
			c.out.add(f, "text")
			outputFile(f, &c.joined, "joined", "FILE", "write the joined rows too: CSV, JSON lines or Parquet, by its ending")
			parsed(f, &c.threshold, parseShare, "threshold", "P", "difference to report: a fraction such as 0.05, or 5%").fallback = "5%"
			f.text(&c.alternatives, "alternatives", "COLUMN", "the column that names the set of alternatives that a block is in (default: none)")
			f.number(&c.most, 0, "top", "sets to list in text; JSON has all")
			f.toggle(&c.mixed, "mixed", "compare results of different settings too")
			return c.run
		},
	}
}

type joining struct {
	files        []string
	out          output
	joined       string
	threshold    float64
	alternatives string
	most         int
	mixed        bool

	rows  []cores.Row
	index map[string]int
	first *resultfile.Run
}

type coreResult struct {
	Name              string `json:"name"`
	File              string `json:"file"`
	Microarchitecture string `json:"microarchitecture,omitempty"`
	Brand             string `json:"brand,omitempty"`
	Blocks            int    `json:"blocks"`
}

func (c *joining) run(std streams) error {
	if len(c.files) < 2 {
		return badUsage("name two results or more, each of another core")
	}
	c.index = map[string]int{}
	var all []coreResult
	var names []string
	for i, file := range c.files {
		r := coreResult{Name: file, File: file}
		if err := c.read(&r, i); err != nil {
			return &usageError{fmt.Errorf("%s: %w", file, err)}
		}
		if r.Microarchitecture != "" {
			r.Name = r.Microarchitecture
		}
		if slices.Contains(names, r.Name) {
			fmt.Fprintf(c.out.notes(std), "bbprof: %s is of %s too; it is called by its file\n", file, r.Name)
			r.Name = file
		}
		if slices.Contains(names, r.Name) {
			return badUsage("%s is named twice; name each result once", file)
		}
		all, names = append(all, r), append(names, r.Name)
	}
	pairs := cores.Compare(names, c.rows, c.threshold)
	if c.joined != "" {
		if err := c.writeJoined(names); err != nil {
			return err
		}
	}
	return c.out.write(std, map[string]any{"cores": all, "threshold": c.threshold, "pairs": pairs}, c.text(all, pairs))
}

// read puts the rows of a file, or of all Parquet files of a directory, into column i of the joined rows.
func (c *joining) read(r *coreResult, i int) error {
	files := []string{r.File}
	if info, err := os.Stat(r.File); err == nil && info.IsDir() {
		files = nil
		err := filepath.WalkDir(r.File, func(path string, d fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".parquet") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return errors.New("a directory without Parquet files")
		}
	}
	for _, file := range files {
		if err := c.readFile(r, file, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *joining) readFile(r *coreResult, file string, i int) error {
	in, closer, err := resultfile.OpenFile(file)
	if err != nil {
		return err
	}
	defer closer.Close()
	if err := in.Schema().Require("hex", "status", "cycles", "ci_low", "ci_high", c.alternatives); err != nil {
		return err
	}
	for cell, err := range resultfile.Cells(in) {
		if err != nil {
			return err
		}
		if header := cell("run_header"); header != "" {
			if err := c.note(r, header); err != nil {
				return err
			}
		}
		block := strings.TrimSpace(cell("hex") + " " + cell("set"))
		k, known := c.index[block]
		if !known {
			k = len(c.rows)
			c.index[block] = k
			c.rows = append(c.rows, cores.Row{Block: block, Category: cell("category"), Alternative: cell(c.alternatives), Cells: make([]cores.Cell, len(c.files))})
		}
		to := &c.rows[k].Cells[i]
		if to.Seen { // the first of rows with one block counts
			continue
		}
		to.Seen = true
		r.Blocks++
		for name, value := range map[string]*float64{"cycles": &to.Cycles, "ci_low": &to.Low, "ci_high": &to.High} {
			if text := cell(name); text != "" {
				if *value, err = strconv.ParseFloat(text, 64); err != nil {
					return fmt.Errorf("block %.100s: %s is %q, which is not a number", block, name, text)
				}
			}
		}
	}
	return nil
}

func (c *joining) note(r *coreResult, header string) error {
	run, err := resultfile.ParseRun(header)
	if err != nil {
		return err
	}
	core := string(run.Host.Microarchitecture)
	if r.Microarchitecture != "" && r.Microarchitecture != core {
		return fmt.Errorf("it has rows of %s and of %s; name a result of each", r.Microarchitecture, core)
	}
	r.Microarchitecture, r.Brand = core, strings.TrimSpace(run.Host.Brand)
	if c.first == nil {
		c.first = &run
	}
	if list := c.first.SettingsDifference(run); list != nil && !c.mixed {
		return fmt.Errorf("it was measured with other settings than %s: %s; -mixed compares them nevertheless", c.files[0], strings.Join(list, "; "))
	}
	return nil
}

// writeJoined writes a row a block with the cycles of each core, and the slowest by the fastest.
func (c *joining) writeJoined(names []string) error {
	format, known := resultfile.FormatOf(c.joined)
	if !known || !format.Whole() {
		return badUsage("-joined %s: end the name in .csv, .jsonl or .parquet", c.joined)
	}
	schema := resultfile.SchemaOf([]string{"hex", "set", "category"})
	for _, name := range names {
		for _, column := range []string{"cycles", "ci_low", "ci_high"} {
			schema = append(schema, resultfile.Column{Name: column + "_" + strings.ReplaceAll(name, " ", "_"), Type: resultfile.Number})
		}
	}
	schema = append(schema, resultfile.Column{Name: "ratio", Type: resultfile.Number}, resultfile.Column{Name: "differs", Type: resultfile.Flag})
	return writeWhole(c.joined, c.files, func(w io.Writer) error {
		out, err := resultfile.NewWriter(w, format, schema)
		if err != nil {
			return err
		}
		for _, r := range c.rows {
			if err := out.Write(c.cells(r)); err != nil {
				return err
			}
		}
		return out.Close()
	})
}

func (c *joining) cells(r cores.Row) []string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }
	hex, set, _ := strings.Cut(r.Block, " ")
	cells := []string{hex, set, r.Category}
	least, most, differs := 0, 0, false
	accepted := true
	for i, x := range r.Cells {
		if x.Cycles == 0 {
			cells, accepted = append(cells, "", "", ""), false
			continue
		}
		cells = append(cells, number(x.Cycles), number(x.Low), number(x.High))
		if x.Cycles < r.Cells[least].Cycles {
			least = i
		}
		if x.Cycles > r.Cells[most].Cycles {
			most = i
		}
		for j := range i {
			differs = differs || r.Differ(j, i, c.threshold) != 0
		}
	}
	ratio := ""
	if accepted {
		ratio = number(r.Cells[most].Cycles / r.Cells[least].Cycles)
	}
	return append(cells, ratio, strconv.FormatBool(differs))
}

func (c *joining) text(all []coreResult, pairs []cores.Pair) string {
	var w strings.Builder
	for _, r := range all {
		fmt.Fprintf(&w, "%-12s  %s in %s %s\n", r.Name, plural(r.Blocks, "block"), r.File, r.Brand)
	}
	for _, p := range pairs {
		fmt.Fprintf(&w, "\n%s (b) against %s (a): %s in both, %d accepted in both, %d on a alone, %d on b alone\n",
			p.NameB, p.NameA, plural(p.Joined, "block"), p.All.Blocks, p.OnlyA, p.OnlyB)
		fmt.Fprintf(&w, "%-14s  %8s  %14s  %14s  %7s  %7s  %7s\n", "category", "blocks", "fewer cycles", "more cycles", "b/a p5", "median", "p95")
		for _, l := range append(p.Categories, p.All) {
			name := l.Category
			if name == "" {
				name = "all"
			}
			n := float64(max(l.Blocks, 1))
			fmt.Fprintf(&w, "%-14s  %8d  %6d %5.1f %%  %6d %5.1f %%  %7.3f  %7.3f  %7.3f\n", name, l.Blocks,
				l.Fewer, 100*float64(l.Fewer)/n, l.More, 100*float64(l.More)/n, l.P5, l.Median, l.P95)
		}
		if c.alternatives == "" {
			continue
		}
		fmt.Fprintf(&w, "ranked differently: %d of %s of alternatives\n", len(p.Ranked), plural(p.Sets, "set"))
		for _, s := range p.Ranked[:min(len(p.Ranked), c.most)] {
			fmt.Fprintf(&w, "  %s (%s): best on a %s, which costs %.1f %% on b; best on b %s, which costs %.1f %% on a\n",
				s.Name, plural(s.Blocks, "block"), short(s.BestA), 100*s.CostB, short(s.BestB), 100*s.CostA)
		}
	}
	return w.String()
}

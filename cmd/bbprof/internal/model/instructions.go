package model

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/tables"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/modelflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func instructionsCommand() *cli.Command {
	return &cli.Command{
		Name:    "instructions",
		Summary: "measure latency and throughput of instructions, one by one",
		Synopsis: []string{"instructions [flags]",
			"instructions -against FILE TABLE  (nothing is measured)",
			"instructions -model SOURCE -report FILE NAME.json  (of -resources; nothing is measured)"},
		About: `It writes a table with a row for each instruction form that bbprof can encode: the mnemonic with
kinds of operands, such as add r64, m64. latency is the largest from a register or the flags to a
register or the flags; the column latencies has each pair of operands, counted from 1: 2 to 1 is
from the second to the first. load_latency starts at an address. store_to_load is a store and the
load of what it wrote, together. throughput is cycles an instruction if none waits for another.
Intervals are of 95 %; that of a throughput that varies (throughput_note) holds all measurements.
`,
		Notes: `docs/instructions.md says how each form is measured, and how far the numbers agree with others'.
`,
		Examples: `bbprof instructions -o table.csv                       all forms: a minute or two
bbprof instructions -against yesterday.csv today.csv   how far two tables agree, and where not
bbprof instructions -resources zen4 -o table.csv       and what the forms compete for
`,
		Exits: map[int]string{cli.ExitOK: "done, whether or not every form has a number",
			cli.ExitUsage: "", cli.ExitHost: "", cli.ExitInternal: "",
			cli.ExitInterrupted: "interrupted; with -o, what was done is written, and -resume goes on"},
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			// Most blocks take a millisecond or two. Blocks that never reach the precision, such as 512-bit operations of two
			// unlike units, would take the usual three seconds each.
			c := instructionsCmd{SideBySide: blockflags.SideBySide{Measuring: profiler.Options{Init: "distinct", Budget: 150 * time.Millisecond}}}
			cli.Parsed(f, &c.match, regexp.Compile, "match", "REGEXP", "only forms whose mnemonic matches")
			f.Toggle(&c.all, "all", "masked, broadcasting and rounding forms, too")
			f.Text(&c.snippets, "snippets", "FILE", "instead of forms, the blocks of llvm-exegesis -benchmark-phase=assemble-measured-code")
			f.Operands = &c.tables
			f.List(&c.against, "against", "FILE",
				"compare with another table of bbprof's, one with columns form,latency,throughput, "+
					"a text of InstLatx64 or uops.info's instructions.xml#CORE; may be repeated. "+
					"The table itself goes to -o FILE")
			c.out.AddFile(f)
			cli.Choice(f, &c.format, []resultfile.Format{resultfile.CSV, resultfile.JSON, resultfile.Parquet, ibench}, "format", "F",
				"csv, with a header; jsonl, an object a line; parquet; or ibench, for osaca --import ibench (default: as FILE is called, or csv)")
			f.Section("Models")
			f.Text(&c.exegesis, "exegesis", "NAME",
				"write NAME-latency.yaml and NAME-inverse_throughput.yaml as llvm-exegesis does, for its -mode=analysis; needs llvm-mc")
			c.AddModel(f, "find where this model, such as llvm-mca-22, has other numbers; what bbprof score -h lists")
			c.AddSettings(f)
			cli.OutputFile(f, &c.report, "report", "FILE", "write where the model disagrees beyond the intervals, the worst first, as text")
			cli.OutputFile(f, &c.resources, "resources", "NAME",
				"find which units and other resources of the core the forms compete for, "+
					"and write NAME.json and NAME.csv: how much of each a form takes; NAME.html shows it. "+
					"The table itself goes to -o FILE")
			f.Text(&c.corpus, "corpus", "FILE", "with -model and a table of resources: list the forms of these blocks only, the most frequent first")
			c.SideBySide.Declare(f)
			return c.out.Resumable(f, c.run, &c.resources)
		},
	}
}

type instructionsCmd struct {
	modelflags.Flags
	blockflags.SideBySide
	match     *regexp.Regexp
	all       bool
	snippets  string
	resources string
	corpus    string
	exegesis  string
	report    string
	against   []string
	tables    []string
	out       cli.Output
	format    resultfile.Format
}

func (c *instructionsCmd) run(std cli.Streams) error {
	c.Kept = std.Kept
	if err := c.check(std); err != nil {
		return err
	}
	var there []tables.Table
	for _, name := range c.against {
		t, err := readNumbers(name)
		if err != nil {
			return cli.BadUsage("-against: %w", err)
		}
		there = append(there, t)
	}
	core, err := c.NamedCore(c.Measuring.CPUs...)
	if err != nil {
		return err
	}
	switch {
	case len(c.tables) == 1 && isResources(c.tables[0]):
		models, err := c.Open(core)
		if err != nil {
			return err
		}
		return c.judgeTable(std, c.tables[0], models)
	case len(c.tables) > 1, len(c.tables) == 1 && len(there) == 0:
		return cli.BadUsage("unexpected argument %q; name a table with -against FILE, to compare the two", c.tables[0])
	case len(c.tables) == 1:
		here, err := readNumbers(c.tables[0])
		if err != nil {
			return cli.Usage(err)
		}
		return c.out.Write(std, nil, agreements(here, there))
	}
	models, err := c.Open(core)
	if err != nil {
		return err
	}
	plans, err := c.plans()
	if err != nil {
		return cli.Usage(err)
	}
	if err := c.checkExegesis(core); err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	rows, err := c.measure(ctx, std, plans)
	return cli.Ended(err, len(rows) > 0 && c.out.File != "", func() error {
		fmt.Fprintf(c.out.Notes(std), "bbprof: %s\n", instructionsSummary(rows))
		if err == nil {
			return c.writeAll(ctx, std, rows, there, models, core)
		}
		err := c.out.Stream(std, func(w io.Writer) error { return writeInstructions(w, c.format, rows) })
		if err == nil {
			fmt.Fprintf(std.Err, "bbprof: %s has the %d of %s that were done\n", c.out.File, len(rows), words.Plural(len(plans), "form"))
		}
		return err
	})
}

func (c *instructionsCmd) check(std cli.Streams) error {
	if err := c.Measuring.Check(); err != nil {
		return cli.Usage(err)
	}
	c.Measuring.Mode = cmp.Or(c.Measuring.Mode, profiler.Unroll)
	if err := rowflags.ChooseFormat(&c.format, c.out.File, std); err != nil {
		return err
	}
	if c.format != ibench && !c.format.Whole() { // by the name of the file
		return cli.BadUsage("-o %s: format %s holds blocks, not instructions; choose csv, jsonl, parquet or ibench", c.out.File, c.format)
	}
	if (len(c.Models) == 1) != (c.report != "") || len(c.Models) > 1 {
		return cli.BadUsage("-model and -report belong together: name one model, and the file for where it disagrees")
	}
	return nil
}

// writeAll writes the table first, since later steps may fail.
func (c *instructionsCmd) writeAll(ctx context.Context, std cli.Streams, rows []instructions.Row, there []tables.Table,
	models []modelflags.Model, core cpu.Core) error {
	var unnamed error // not fatal to the table
	if tool, _ := c.llvmMC(ctx, core); tool != "" {
		unnamed = instructions.NameOpcodes(ctx, tool, rows)
	}
	if c.out.File != "" || len(there) == 0 && c.resources == "" {
		if err := c.out.Stream(std, func(w io.Writer) error { return writeInstructions(w, c.format, rows) }); err != nil {
			return err
		}
	}
	if len(there) > 0 {
		here, err := numbersOf(rows)
		if err == nil {
			err = cli.WriteText(std, agreements(here, there))
		}
		if err != nil {
			return err
		}
	}
	if unnamed != nil {
		return unnamed
	}
	if c.exegesis != "" {
		if err := c.writeExegesis(std, rows, cmp.Or(c.MCPU, core.LLVM, "generic")); err != nil {
			return err
		}
	}
	if c.resources != "" {
		if err := c.findResources(ctx, std, rows); err != nil {
			return err
		}
	}
	if len(models) == 0 {
		return nil
	}
	return c.disagree(ctx, std, rows, models[0])
}

func (c *instructionsCmd) plans() (plans []instructions.Plan, err error) {
	if c.snippets != "" {
		f, err := os.Open(c.snippets)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if plans, err = instructions.ReadSnippets(f); err != nil {
			return nil, fmt.Errorf("-snippets %s: %w", c.snippets, err)
		}
		return plans, nil
	}
	chosen := forms.Select(c.match, c.all)
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no form's mnemonic matches -match %s", c.match)
	}
	plans = make([]instructions.Plan, len(chosen))
	for i := range chosen {
		plans[i] = instructions.NewPlan(&chosen[i])
	}
	return plans, nil
}

// llvmMC returns the llvm-mc of the model's version, else the newest that can name opcodes; why says why one cannot.
func (c *instructionsCmd) llvmMC(ctx context.Context, core cpu.Core) (tool string, why error) {
	version := ""
	if len(c.Models) == 1 {
		version, _, _ = strings.Cut(strings.TrimPrefix(c.Models[0].Text, "llvm-mca"), ",") // another model has none
	}
	return instructions.MC(ctx, version, cmp.Or(c.MCPU, core.LLVM))
}

func (c *instructionsCmd) checkExegesis(core cpu.Core) error {
	if c.exegesis == "" {
		return nil
	}
	if _, why := c.llvmMC(context.Background(), core); why != nil && c.snippets == "" {
		return cli.BadUsage("-exegesis %s: %w; Debian has it in package llvm-22", c.exegesis, why)
	}
	for _, mode := range instructions.ExegesisModes() {
		if err := cli.Replaceable(c.exegesisFile(mode)); err != nil {
			return cli.BadUsage("-exegesis %s: %w", c.exegesis, err)
		}
	}
	return nil
}

func (c *instructionsCmd) exegesisFile(mode string) string { return c.exegesis + "-" + mode + ".yaml" }

func (c *instructionsCmd) writeExegesis(std cli.Streams, rows []instructions.Row, cpu string) error {
	written := 0
	for _, mode := range instructions.ExegesisModes() {
		name := c.exegesisFile(mode)
		text, documents, why := instructions.Exegesis(rows, mode, cpu)
		if documents == 0 {
			fmt.Fprintf(std.Err, "bbprof: %s is not written: %s\n", name, why)
			continue
		}
		if err := cli.WriteWhole(name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			return fmt.Errorf("-exegesis: %w", err)
		}
		written++
		fmt.Fprintf(c.out.Notes(std), "bbprof: %s has %s for %s\n", name, words.Plural(documents, "result"), cpu)
	}
	if written == 0 {
		return cli.BadUsage("-exegesis %s: there is nothing to write", c.exegesis)
	}
	return nil
}

func (c *instructionsCmd) measure(ctx context.Context, std cli.Streams, plans []instructions.Plan) ([]instructions.Row, error) {
	workers, err := blockflags.SomeWorkers(ctx, std, c.Measuring, c.Workers)
	if err != nil {
		return nil, err
	}
	defer workers.Close()
	var shown *cli.Counter
	rows, err := instructions.Measure(ctx, workers.Measurers(), plans, c.Retries, host.Detect(c.Measuring.CPUs...).DispatchWidth, func(done, of int) {
		if shown == nil {
			shown = cli.Progress(c.out.Notes(std), of, "blocks")
		}
		shown.Of = of // some results add blocks
		shown.Step(done)
	})
	if shown != nil {
		shown.End()
	}
	return rows, err
}

// instructionCells returns the table's columns, and a row's cells. The first four columns keep place and name.
func instructionCells(r *instructions.Row) (columns resultfile.Schema, cells []string) {
	text := func(name, cell string) {
		columns = append(columns, resultfile.Column{Name: name, Type: resultfile.Text})
		cells = append(cells, strings.ReplaceAll(cell, "\n", " "))
	}
	cycles := func(name string, m *instructions.Measurement, of func(instructions.Value) float64) {
		const decimals = 3 // finer than most intervals
		cell := ""
		if m != nil {
			cell = strconv.FormatFloat(of(m.Value), 'f', decimals, 64)
		}
		columns = append(columns, resultfile.Column{Name: name, Type: resultfile.Number, Decimals: decimals})
		cells = append(cells, cell)
	}
	value := func(v instructions.Value) float64 { return v.Cycles }
	low := func(v instructions.Value) float64 { return v.Low }
	high := func(v instructions.Value) float64 { return v.High }
	text("form", r.Name)
	text("status", string(r.Status))
	cycles("latency", r.Latency, value)
	cycles("throughput", r.Throughput, value)
	cycles("latency_low", r.Latency, low)
	cycles("latency_high", r.Latency, high)
	cycles("throughput_low", r.Throughput, low)
	cycles("throughput_high", r.Throughput, high)
	cycles("load_latency", r.Load, value)
	cycles("store_to_load", r.StoreToLoad, value)
	text("latencies", r.List(instructions.Latency, instructions.OtherLatency, instructions.Output, instructions.LoadLatency, instructions.StoreToLoad))
	text("throughputs", r.List(instructions.Throughput))
	text("reason", r.Reason)
	text("detail", r.Detail)
	text("opcode", r.Opcode)
	none := new(instructions.Measurement)
	latency, throughput := cmp.Or(r.Latency, none), cmp.Or(r.Throughput, none)
	text("latency_evidence", latency.Result.Evidence)
	text("throughput_evidence", throughput.Result.Evidence)
	text("latency_block", latency.Block)
	text("throughput_block", throughput.Block)
	text("latency_note", noteOf(latency))
	text("throughput_note", noteOf(throughput))
	text("latency_flags", latency.Flags)
	text("throughput_flags", throughput.Flags)
	return columns, cells
}

// noteOf explains a number that is not one fixed time.
func noteOf(m *instructions.Measurement) string {
	switch {
	case m == nil:
		return ""
	case m.Mean != "":
		return "mean: " + m.Mean
	case m.Varies > 0:
		return fmt.Sprintf("varies: the interval holds %d measurements", m.Varies)
	}
	return ""
}

// ibench is the format that OSACA imports.
const ibench resultfile.Format = "ibench"

func writeInstructions(w io.Writer, format resultfile.Format, rows []instructions.Row) error {
	if format == ibench {
		_, err := io.WriteString(w, instructions.IBench(rows))
		return err
	}
	schema, _ := instructionCells(new(instructions.Row))
	out, err := resultfile.NewWriter(w, format, schema)
	if err != nil {
		return err
	}
	for i := range rows {
		_, cells := instructionCells(&rows[i])
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	return out.Close()
}

func instructionsSummary(rows []instructions.Row) string {
	measured, means, varying, busy := 0, 0, 0, 0
	for i := range rows {
		if rows[i].Reason == string(verdict.BusyCore) || strings.Contains(rows[i].Detail, string(verdict.BusyCore)+":") {
			busy++
		}
		if rows[i].Status == profiler.OK {
			measured++
		}
		notes := noteOf(rows[i].Latency) + noteOf(rows[i].Throughput)
		if strings.Contains(notes, "mean:") {
			means++
		}
		if strings.Contains(notes, "varies:") {
			varying++
		}
	}
	text := fmt.Sprintf("%s: %d measured, %d of them as a mean and %d with a throughput that varies; %d not measured",
		words.Plural(len(rows), "form"), measured, means, varying, len(rows)-measured)
	if busy > 0 {
		text += fmt.Sprintf("; %d lack a number because the core was busy", busy)
	}
	return text
}

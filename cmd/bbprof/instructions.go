package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/profiler"
)

// instructionsCommand measures a table of instructions.
func instructionsCommand() *command {
	return &command{
		name:     "instructions",
		summary:  "measure latency and throughput of instructions, one by one",
		synopsis: []string{"instructions [flags]"},
		about: `It writes a table with a row for each instruction form that bbprof can encode: the instruction with
kinds of operands, such as add r64, m64. r, m and i are a register, memory and an immediate of so
many bits; {evex} is EVEX's encoding of what VEX has too; {k} and {k}{z} are masked forms.

latency is the largest of those from a register or flags to a register or flags; the column
latencies has each pair of operands, counted from 1: 2 to 1 is from the second to the first.
load_latency starts at an address. store_to_load is a store and the load of what it wrote, together.
throughput is cycles an instruction where none waits for another. Intervals are of 95 %.
`,
		notes: `What has no number has a reason, and detail says more. Where a pair's operands differ in kind, other
instructions close the chain, and their latency is subtracted; a round trip is split in half.
docs/instructions.md says how each form is measured, and how far the numbers agree with others'.
`,
		examples: `bbprof instructions -o table.csv                       all forms: some minutes
bbprof instructions -match '^vp?add'                   some mnemonics
bbprof instructions -match '^vaddps$' -all             masked, broadcasting and rounding ones, too
`,
		exits: map[int]string{exitOK: "done, whether or not every form has a number", exitUsage: "", exitHost: "", exitInternal: "", exitInterrupted: "interrupted; nothing is written"},
		setup: func(f *flags) func(streams) error {
			c := measuringForms{retries: 2, measuring: profiler.Options{Init: "distinct"}}
			parsed(f, &c.match, regexp.Compile, "match", "REGEXP", "only forms whose mnemonic matches")
			f.toggle(&c.all, "all", "masked, broadcasting and rounding forms, too")
			c.out.addFile(f)
			formatFlag(f, &c.format)
			f.section("Workers")
			f.number(&c.workers, 0, "workers", "N", "measure N blocks at a time").fallback = "one a physical core, and no more than the cgroup leaves CPU time for"
			f.number(&c.retries, 0, "retries", "N", "measure a noisy block up to N times more")
			measuring(f, &c.measuring)
			return c.run
		},
	}
}

type measuringForms struct {
	match     *regexp.Regexp
	all       bool
	out       output
	format    resultfile.Format
	workers   int
	retries   int
	measuring profiler.Options
}

func (c *measuringForms) run(std streams) error {
	if err := c.measuring.Check(); err != nil {
		return &usageError{err}
	}
	if err := chooseFormat(&c.format, c.out.file, std); err != nil {
		return err
	}
	if c.format == resultfile.BHive {
		return badUsage("-format bhive holds blocks, not instructions; choose csv, jsonl or parquet")
	}
	chosen := forms.Select(c.match, c.all)
	if len(chosen) == 0 {
		return badUsage("no form's mnemonic matches -match %s", c.match)
	}
	plans := make([]instructions.Plan, len(chosen))
	for i := range chosen {
		plans[i] = instructions.NewPlan(&chosen[i])
	}
	ctx, stop := untilSignal()
	defer stop()
	rows, err := c.measure(ctx, std, plans)
	if errors.Is(err, instructions.ErrInterrupted) {
		return exit(exitInterrupted)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out.notes(std), "bbprof: %s\n", instructionsSummary(rows))
	return c.out.stream(std, func(w io.Writer) error { return writeInstructions(w, c.format, rows) })
}

// measure starts workers and hands them what is planned.
func (c *measuringForms) measure(ctx context.Context, std streams, plans []instructions.Plan) ([]instructions.Row, error) {
	cpus, err := workerCPUs(c.measuring.CPUs, c.workers)
	if err != nil {
		return nil, err
	}
	workers, err := startWorkers(c.measuring, cpus)
	if err != nil {
		return nil, err
	}
	defer workers.close()
	var measurers []instructions.Measurer
	for _, w := range workers {
		measurers = append(measurers, w)
	}
	var shown *counter
	rows, err := instructions.Measure(ctx, measurers, plans, c.retries, func(done, of int) {
		if shown == nil {
			shown = progress(c.out.notes(std), of, "blocks")
		}
		shown.step(done)
	})
	if shown != nil {
		shown.end()
	}
	return rows, err
}

// instructionColumns are those of the table. The first four keep their place and their names.
var instructionColumns = []struct {
	resultfile.Column
	of func(*instructions.Row) string
}{
	{resultfile.Column{Name: "form", Type: resultfile.Text}, func(r *instructions.Row) string { return r.Form.Name() }},
	{resultfile.Column{Name: "status", Type: resultfile.Text}, func(r *instructions.Row) string { return string(r.Status) }},
	{cyclesColumn("latency"), func(r *instructions.Row) string { return cyclesOf(r.Latency, value) }},
	{cyclesColumn("throughput"), func(r *instructions.Row) string { return cyclesOf(r.Throughput, value) }},
	{cyclesColumn("latency_low"), func(r *instructions.Row) string { return cyclesOf(r.Latency, low) }},
	{cyclesColumn("latency_high"), func(r *instructions.Row) string { return cyclesOf(r.Latency, high) }},
	{cyclesColumn("throughput_low"), func(r *instructions.Row) string { return cyclesOf(r.Throughput, low) }},
	{cyclesColumn("throughput_high"), func(r *instructions.Row) string { return cyclesOf(r.Throughput, high) }},
	{cyclesColumn("load_latency"), func(r *instructions.Row) string { return cyclesOf(r.Load, value) }},
	{cyclesColumn("store_to_load"), func(r *instructions.Row) string { return cyclesOf(r.StoreToLoad, value) }},
	{resultfile.Column{Name: "latencies", Type: resultfile.Text}, func(r *instructions.Row) string {
		return r.List(instructions.Latency, instructions.LoadLatency, instructions.StoreToLoad)
	}},
	{resultfile.Column{Name: "throughputs", Type: resultfile.Text}, func(r *instructions.Row) string { return r.List(instructions.Throughput) }},
	{resultfile.Column{Name: "reason", Type: resultfile.Text}, func(r *instructions.Row) string { return r.Reason }},
	{resultfile.Column{Name: "detail", Type: resultfile.Text}, func(r *instructions.Row) string { return r.Detail }},
	{resultfile.Column{Name: "opcode", Type: resultfile.Text}, func(r *instructions.Row) string { return r.Opcode }},
	{resultfile.Column{Name: "latency_evidence", Type: resultfile.Text}, func(r *instructions.Row) string { return evidenceOf(r.Latency) }},
	{resultfile.Column{Name: "throughput_evidence", Type: resultfile.Text}, func(r *instructions.Row) string { return evidenceOf(r.Throughput) }},
	{resultfile.Column{Name: "latency_block", Type: resultfile.Text}, func(r *instructions.Row) string { return blockOf(r.Latency) }},
	{resultfile.Column{Name: "throughput_block", Type: resultfile.Text}, func(r *instructions.Row) string { return blockOf(r.Throughput) }},
}

func cyclesColumn(name string) resultfile.Column {
	return resultfile.Column{Name: name, Type: resultfile.Number, Decimals: instructionDecimals}
}

// instructionDecimals are finer than most intervals.
const instructionDecimals = 3

func value(v instructions.Value) float64 { return v.Cycles }
func low(v instructions.Value) float64   { return v.Low }
func high(v instructions.Value) float64  { return v.High }

func cyclesOf(m *instructions.Measured, of func(instructions.Value) float64) string {
	if m == nil {
		return ""
	}
	return strconv.FormatFloat(of(m.Value), 'f', instructionDecimals, 64)
}

func evidenceOf(m *instructions.Measured) string {
	if m == nil {
		return ""
	}
	return m.Result.Evidence
}

func blockOf(m *instructions.Measured) string {
	if m == nil {
		return ""
	}
	return m.Block
}

func writeInstructions(w io.Writer, format resultfile.Format, rows []instructions.Row) error {
	var schema resultfile.Schema
	for _, c := range instructionColumns {
		schema = append(schema, c.Column)
	}
	out, err := resultfile.NewWriter(w, format, schema)
	if err != nil {
		return err
	}
	cells := make([]string, len(schema))
	for i := range rows {
		for k, c := range instructionColumns {
			cells[k] = strings.ReplaceAll(c.of(&rows[i]), "\n", " ")
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	return out.Close()
}

// instructionsSummary says in a line what was measured.
func instructionsSummary(rows []instructions.Row) string {
	count := map[string]int{}
	for i := range rows {
		count[string(rows[i].Status)]++
	}
	return fmt.Sprintf("%s: %d measured, %d not", plural(len(rows), "form"), count["ok"], len(rows)-count["ok"])
}

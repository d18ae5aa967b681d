package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// compareFlags are what the user may say of a comparison.
type compareFlags struct {
	measuring profiler.Options
	a, b      string
	layouts   int
	trials    int
	seed      uint64
	unpaired  bool
	plot      plots
	json      bool
	verbose   bool

	programs program.Options
	cleanEnv bool
	ofBlocks []string // the flags given that programs do not have
	ofRuns   []string // and those that blocks do not have
}

// comparing tells which of two blocks or programs is faster, or of many pairs: bbprof compare.
func comparing(args []string, std streams) int {
	c, code, done := parseCompare(args, std)
	if done {
		return code
	}
	a, err := readSide("-a", c.a, std.in)
	if err != nil {
		return usageError(std, "compare: %v", err)
	}
	b, err := readSide("-b", c.b, std.in)
	if err != nil {
		return usageError(std, "compare: %v", err)
	}
	switch {
	case a.kind != b.kind:
		return usageError(std, "compare: one side is a %s and the other a %s; give two of a kind", a.kind, b.kind)
	case a.kind == aCommand && len(c.ofBlocks) > 0:
		return usageError(std, "compare: -%s is for blocks, and these are programs", c.ofBlocks[0])
	case a.kind != aCommand && len(c.ofRuns) > 0:
		return usageError(std, "compare: -%s is for programs, and these are blocks", c.ofRuns[0])
	case a.kind == aCommand:
		return c.runs(a.words, b.words, std)
	case len(a.rows) != len(b.rows):
		return usageError(std, "compare: %d blocks in %s and %d in %s: rows are compared in pairs, so there must be as many in both", len(a.rows), c.a, len(b.rows), c.b)
	}
	p, err := profiler.New(c.measuring)
	if err != nil {
		return failure(std, err)
	}
	defer p.Close()
	ctx, stop := untilSignal()
	defer stop()
	if a.kind == aFile {
		return c.files(ctx, p, a.rows, b.rows, std)
	}
	return c.one(ctx, p, a.rows[0], b.rows[0], std)
}

// parseCompare reads the flags of bbprof compare. If done is true the command ends with code.
func parseCompare(args []string, std streams) (c compareFlags, code int, done bool) {
	f := newFlags("bbprof compare")
	f.StringVar(&c.a, "a", "", "")
	f.StringVar(&c.b, "b", "", "")
	f.IntVar(&c.layouts, "layouts", 33, "")
	f.IntVar(&c.trials, "trials", 3, "")
	f.Uint64Var(&c.seed, "seed", 1, "")
	f.BoolVar(&c.unpaired, "unpaired", false, "")
	c.plot.add(f)
	f.BoolVar(&c.json, "json", false, "")
	f.BoolVar(&c.verbose, "v", false, "")
	measuring(f, &c.measuring)
	f.Func("timeout", "", func(s string) (err error) {
		c.programs.Timeout, err = parseTimeout(s)
		return err
	})
	f.StringVar(&c.programs.Stdin, "stdin", "", "")
	f.BoolVar(&c.programs.AnyStatus, "any-status", false, "")
	f.BoolVar(&c.cleanEnv, "clean-env", false, "")
	operands, code, done := parse(f, args, usageCompare, std)
	if done {
		return c, code, true
	}
	if err := c.check(f, operands); err != nil {
		return c, usageError(std, "compare: %v", err), true
	}
	return c, 0, false
}

func (c *compareFlags) check(f *flag.FlagSet, operands []string) error {
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) {
		given[g.Name] = true
		switch g.Name {
		case "timeout", "stdin", "any-status", "clean-env":
			c.ofRuns = append(c.ofRuns, g.Name)
		case "a", "b", "layouts", "trials", "seed", "unpaired", "plot", "json", "v", "cpu":
		default:
			c.ofBlocks = append(c.ofBlocks, g.Name)
		}
	})
	switch {
	case len(operands) > 0:
		return fmt.Errorf("unexpected argument %q: the sides are named by -a and -b", operands[0])
	case !given["a"] || !given["b"]:
		return errors.New("two sides are needed: -a and -b, such as -a 4801c0 -b 480fafc0")
	case c.a == "-" && c.b == "-":
		return errors.New("standard input can be one side only")
	case c.layouts < 2:
		return fmt.Errorf("-layouts %d: at least 2 are needed to know how much they differ", c.layouts)
	case c.trials < 1:
		return fmt.Errorf("-trials %d: write how often to measure in each layout, 1 or more", c.trials)
	case c.measuring.Mode == profiler.Both:
		return errors.New("-mode both gives two numbers; choose unroll or loop")
	}
	return c.measuring.Check()
}

// side is what -a or -b names: a block, the rows of a file, or a program with its arguments.
type side struct {
	kind  kind
	rows  []input.Row
	words []string
}

type kind string

const (
	aBlock   kind = "block"
	aFile    kind = "file of blocks"
	aCommand kind = "program"
)

// readSide takes hexadecimal digits for a block, a file that cannot be executed for a file of
// blocks, and what begins with the name of a program for a command.
func readSide(name, text string, stdin io.Reader) (side, error) {
	code, hexErr := asm.ParseHex(text, profiler.MaxBlock)
	if hexErr == nil {
		return side{kind: aBlock, rows: []input.Row{{Text: text, Code: code}}}, nil
	}
	words, wordsErr := program.Words(text)
	if len(words) > 0 {
		if _, err := exec.LookPath(words[0]); err == nil {
			return side{kind: aCommand, words: words}, nil
		}
	}
	in, err := input.Open([]string{text}, stdin, "", nil)
	if _, statErr := os.Stat(text); text != "-" && errors.Is(statErr, os.ErrNotExist) {
		if wordsErr != nil {
			return side{}, fmt.Errorf("%s: %w", name, wordsErr)
		}
		return side{}, fmt.Errorf("%s %q is neither a block (%v) nor a file nor a program", name, text, hexErr)
	}
	if err != nil {
		return side{}, fmt.Errorf("%s: %w", name, err)
	}
	defer in.Close()
	s := side{kind: aFile}
	for {
		row, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s, fmt.Errorf("%s: reading %s: %w", name, text, err)
		}
		s.rows = append(s.rows, row)
	}
	if len(s.rows) == 0 {
		return s, fmt.Errorf("%s: %s holds no block", name, text)
	}
	return s, nil
}

// comparison is one pair of blocks on its way, and what JSON tells of it.
type comparison struct {
	A                  compared `json:"a"`
	B                  compared `json:"b"`
	Seed               uint64   `json:"seed"`
	Cycles             string   `json:"cycles_are,omitempty"` // of programs: how they were found
	Trials             int      `json:"trials"`
	compare.Conclusion          // nothing where Rejection is
	Adjusted           float64  `json:"p_adjusted,omitzero"` // among the pairs of two files
	LayoutsForPercent  int      `json:"layouts_for_1_percent,omitzero"`

	Rejection *verdict.Rejection `json:"rejection,omitempty"`
	Side      string             `json:"rejected_side,omitempty"`
	Failure   string             `json:"failure,omitempty"` // of bbprof itself, in one pair of two files

	Pairs   []compare.Pair    `json:"pairs,omitempty"`
	Dropped []compare.Dropped `json:"dropped,omitempty"`

	unit string // of the values
}

// compared is one side: a block, or a program.
type compared struct {
	Command      string `json:"command,omitempty"`
	Hex          string `json:"hex,omitempty"`
	Instructions int    `json:"instructions,omitzero"`
	Bytes        int    `json:"bytes,omitzero"`
	Init         string `json:"init,omitempty"`
	Line         int    `json:"line,omitzero"` // of its file
}

// ofRow tells of a row's block what is known before it is measured.
func ofRow(row input.Row) compared {
	if row.Rejection != nil {
		return compared{Hex: row.Rejected().Hex, Line: row.Line}
	}
	return compared{Hex: hex.EncodeToString(row.Code), Bytes: len(row.Code), Line: row.Line}
}

// measured adds what its first measurement found out.
func (b *compared) measured(r profiler.Result) {
	b.Instructions, b.Init = r.Instructions, r.Init.Name
}

// compare measures one pair. What is wrong with a block is in the comparison.
func (c *compareFlags) compare(ctx context.Context, p measure.Profiler, a, b input.Row) (*comparison, error) {
	out := &comparison{Seed: c.seed, Trials: c.trials, A: ofRow(a), B: ofRow(b), unit: "cycles per iteration"}
	for i, row := range []input.Row{a, b} {
		if row.Rejection != nil {
			out.Rejection, out.Side = row.Rejection, "ab"[i:i+1]
			return out, nil
		}
	}
	measure, first, err := compare.Blocks(ctx, p, a.Code, b.Code)
	out.A.measured(first[0])
	out.B.measured(first[1])
	if err == nil {
		layouts := compare.Draw(c.seed, c.layouts, c.trials)
		conclude := compare.Paired
		if c.unpaired {
			conclude = compare.Unpaired
			out.Pairs, out.Dropped, err = compare.RunUnpaired(ctx, layouts, compare.Draw(^c.seed, c.layouts, c.trials), measure[0], measure[1])
		} else {
			out.Pairs, out.Dropped, err = compare.Run(ctx, layouts, measure[0], measure[1])
		}
		if err == nil {
			out.Conclusion, err = conclude(out.Pairs)
			out.LayoutsForPercent = out.LayoutsFor(1)
		}
	}
	var (
		side      *compare.SideError
		rejection *verdict.Rejection
	)
	if errors.As(err, &side) && errors.As(err, &rejection) {
		out.Rejection, out.Side = rejection, side.Side
		return out, nil
	}
	return out, err
}

// one compares two blocks.
func (c *compareFlags) one(ctx context.Context, p measure.Profiler, a, b input.Row, std streams) int {
	out, err := c.compare(ctx, p, a, b)
	if err != nil {
		return failure(std, err)
	}
	return c.show(out, std)
}

// show writes a comparison and draws it.
func (c *compareFlags) show(out *comparison, std streams) (code int) {
	var err error
	if c.json {
		err = json.NewEncoder(std.out).Encode(out)
	} else {
		_, err = io.WriteString(std.out, out.report(c))
	}
	if err != nil {
		return failure(std, fmt.Errorf("writing the result: %w", err))
	}
	if out.Rejection != nil {
		return exitRejected
	}
	return c.draw(std, compare.Figure(out.unit, out.Conclusion, out.Pairs))
}

// draw writes the figure that -plot asks for.
func (c *compareFlags) draw(std streams, f plot.Figure) int {
	if err := c.plot.draw(f); err != nil {
		return failure(std, err)
	}
	return exitOK
}

// report is a comparison as text.
func (out *comparison) report(c *compareFlags) string {
	var w strings.Builder
	line := func(name, format string, args ...any) {
		w.WriteString(strings.TrimRight(fmt.Sprintf("%-12s"+format, append([]any{name}, args...)...), " ") + "\n")
	}
	if r := out.Rejection; r != nil {
		fmt.Fprintf(&w, "rejected: -%s: %v\n", out.Side, r)
		line("a", "%s", out.A.text())
		line("b", "%s", out.B.text())
		if n := len(out.Pairs) + len(out.Dropped); n > 0 {
			line("layouts", "%d of %d measured, and a comparison needs two", len(out.Pairs), n)
		}
		return w.String()
	}
	fmt.Fprintln(&w, out.headline())
	for _, s := range []struct {
		name string
		side compared
		compare.Summary
	}{{"a", out.A, out.Conclusion.A}, {"b", out.B, out.Conclusion.B}} {
		line(s.name, "%s %s, %s to %s in the layouts: %s", cycles(s.Mean), out.unit, cycles(s.Low), cycles(s.High), s.side.text())
	}
	if out.Cycles != "" {
		line("cycles", "%s", out.Cycles)
	} else {
		line("state", "%s, moved with the layout", out.A.Init)
	}
	line("layouts", "%d of seed %d%s, measured %s each", out.Layouts, c.seed, dropped(out.Dropped), times(c.trials))
	line("test", "%s, p = %.2g with %.4g degrees of freedom", out.Method, out.P, out.DF)
	if !c.unpaired {
		line("won", "a %d, b %d of %d layouts", out.WonA, out.WonB, out.Layouts)
		line("alone", "one layout would have said: slower %d, faster %d, no difference %d times; from %+.2f to %+.2f %%",
			out.Says[compare.Slower], out.Says[compare.Faster], out.Says[compare.Same], out.least(), out.most())
	}
	line("detects", "a difference of %.2f %% in 4 of 5 runs with so many layouts; one of 1 %% takes %s", out.Detects, enough(out.LayoutsForPercent))
	if c.verbose {
		out.table(&w)
	}
	return w.String()
}

// enough is a number of layouts, 0 for more than anybody takes.
func enough(layouts int) string {
	if layouts == 0 {
		return "too many to tell"
	}
	return strconv.Itoa(layouts)
}

// headline is the verdict with its size.
func (out *comparison) headline() string {
	interval := fmt.Sprintf("95 %% interval %s to %s %%", signed(out.Low), signed(out.High))
	switch out.Verdict {
	case compare.Slower:
		return fmt.Sprintf("b is slower than a by %.2f %%, %s", out.Mean, interval)
	case compare.Faster:
		return fmt.Sprintf("b is faster than a by %.2f %%, %s", -out.Mean, interval)
	}
	return fmt.Sprintf("no difference: b against a %s %%, %s", signed(out.Mean), interval)
}

func signed(percent float64) string { return fmt.Sprintf("%+.2f", percent) }

// cycles has three decimals, or of a program's many none.
func cycles(n float64) string {
	if n >= 1e5 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.3f", n)
}

func (b compared) text() string {
	if b.Command != "" {
		return b.Command
	}
	return fmt.Sprintf("%s in %s: %s", plural(b.Instructions, "instruction"), plural(b.Bytes, "byte"), b.Hex)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// dropped tells of layouts that do not count.
func dropped(d []compare.Dropped) string {
	if len(d) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d more dropped, the first because -%s is rejected there: %s)", len(d), d[0].Side, d[0].Rejection.Reason)
}

func (out *comparison) least() float64 {
	least := out.Alone[0].Difference
	for _, a := range out.Alone {
		least = min(least, a.Difference)
	}
	return least
}

func (out *comparison) most() float64 {
	most := out.Alone[0].Difference
	for _, a := range out.Alone {
		most = max(most, a.Difference)
	}
	return most
}

// table lists the layouts.
func (out *comparison) table(w io.Writer) {
	places := [2]string{"code", "data"}
	if out.Cycles != "" {
		places = [2]string{"env", "stack"}
	}
	fmt.Fprintf(w, "%6s  %5s  %5s  %12s  %12s  %8s  %s\n", "layout", places[0], places[1], "a", "b", "diff. %", "alone")
	for i, p := range out.Pairs {
		at := [2]int{p.Layout.Start, p.Layout.Data}
		if out.Cycles != "" {
			at = [2]int{p.Layout.Env, p.Layout.Stack}
		}
		fmt.Fprintf(w, "%6d  %5d  %5d  %12s  %12s  %+8.2f  %s\n", p.Layout.Number, at[0], at[1],
			cycles(compare.Value(p.A)), cycles(compare.Value(p.B)), out.Alone[i].Difference, out.Alone[i].Verdict)
	}
}

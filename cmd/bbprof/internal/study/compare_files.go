package study

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func (c *comparing) files(ctx context.Context, p measure.Profiler, a, b []input.Row, std cli.Streams) error {
	var all []*Comparison
	done := cli.Progress(c.out.Notes(std), len(a), "pairs")
	var end error
	for i := range a {
		out, err := c.compare(ctx, p, a[i], b[i], func(int) {})
		if cli.Stopped(err) || measuring.ExitOf(err) == cli.ExitHost {
			end = err
			break
		}
		if err != nil { // a failure over one pair leaves the others what they are
			out.Failure = err.Error()
			fmt.Fprintf(std.Err, "bbprof: pair %d: %v\n", i+1, err)
		}
		all = append(all, out)
		done.Step(len(all))
	}
	done.End()
	if end != nil && len(all) == 0 {
		return end
	}
	adjust(all)
	left := len(a) - len(all)
	if err := c.out.Stream(std, func(w io.Writer) error { return c.writeFiles(w, all, left, end) }); err != nil || end != nil {
		return cmp.Or(err, end)
	}
	var measured []compare.Conclusion
	for _, out := range all {
		if out.concluded() {
			measured = append(measured, out.Conclusion)
		}
	}
	if len(measured) == 0 {
		return cli.ErrRejected
	}
	return c.plot.Draw("a: "+c.a+"\nb: "+c.b, c.measuring.CPUs, compare.FigureAll(measured))
}

// adjust corrects the outcomes for the number of tests: without it five of a hundred equal pairs
// would differ by chance.
func adjust(all []*Comparison) {
	var p []float64
	for _, out := range all {
		if out.concluded() {
			p = append(p, out.P)
		}
	}
	p = stat.Holm(p)
	for _, out := range all {
		if !out.concluded() {
			continue
		}
		if out.Adjusted = p[0]; out.Adjusted >= stat.Level {
			out.Verdict = compare.Same
		}
		p = p[1:]
	}
}

// comparisons are several that are written together: the pairs of two files, or the programs of a suite.
type comparisons struct {
	all  []*Comparison
	what string // each of them is
	left int    // how many were not reached
	end  error  // for which, of a signal or of the host
}

// table is a row for each, and how many came to what. name, last and why give a row's first cell, its last one, and
// that of one which was not measured.
func (c comparisons) table(sides, lastHeader string, name func(i int) string, last, why func(*Comparison) string) string {
	count := map[compare.Verdict]int{}
	measured := 0
	t := cli.NewTable(sides, append([]string{c.what}, append(sidesHeader, lastHeader)...)...)
	for i, out := range c.all {
		if !out.concluded() {
			t.Row(name(i), "", "", "", "", "", "not measured", why(out))
			continue
		}
		measured++
		count[out.Verdict]++
		t.Row(append(append([]string{name(i)}, out.sides()...), last(out))...)
	}
	text := fmt.Sprintf("%s%s: %d slower, %d faster, %d no difference, %d not measured\n", t, words.Plural(len(c.all), c.what),
		count[compare.Slower], count[compare.Faster], count[compare.Same], len(c.all)-measured)
	if c.left > 0 {
		text += fmt.Sprintf("incomplete: %s before the last %s\n", measuring.EndedBy(c.end), words.Plural(c.left, c.what))
	}
	return text
}

// writeFiles writes a row for each pair, and what they say together; left are the pairs that were not reached, for end.
func (c *comparing) writeFiles(w io.Writer, all []*Comparison, left int, end error) error {
	if c.out.JSON {
		if err := cli.JSONLines(w, all); err != nil || left == 0 {
			return err
		}
		return json.NewEncoder(w).Encode(map[string]any{"incomplete": true, "pairs_left": left})
	}
	text := comparisons{all, "pair", left, end}.table("rrrrlrll", "block of a", func(i int) string { return strconv.Itoa(i + 1) },
		func(out *Comparison) string { return short(out.A.Hex) }, func(out *Comparison) string { return short(out.A.Hex) + ": " + out.why() })
	var differences []float64
	for _, out := range all {
		if out.concluded() {
			differences = append(differences, out.Mean)
		}
	}
	if len(differences) > 1 {
		mean := stat.OneSample(differences)
		text += fmt.Sprintf("over all pairs: b against a %s %%, 95 %% interval %s to %s %%\n", signed(mean.Mean), signed(mean.Low), signed(mean.High))
	}
	_, err := io.WriteString(w, text)
	return err
}

// sidesHeader names the cells of sides.
var sidesHeader = []string{"a", "b", "diff. %", "95 % interval", "p, adj.", "b is"}

// sides are what a table says of a comparison among several.
func (out *Comparison) sides() []string {
	return []string{cycles(out.Conclusion.A.Mean), cycles(out.Conclusion.B.Mean), signed(out.Mean), signed(out.Low) + " to " + signed(out.High),
		fmt.Sprintf("%.2g", out.Adjusted), string(out.Verdict)}
}

// concluded reports whether a pair was measured in enough layouts.
func (out *Comparison) concluded() bool { return out.Rejection == nil && out.Failure == "" }

func (out *Comparison) why() string {
	if out.Rejection == nil {
		return "bbprof failed: " + out.Failure
	}
	s := fmt.Sprintf("-%s is rejected: %v", out.Side, out.Rejection.Reason)
	if len(out.Dropped) > 0 {
		s += fmt.Sprintf(" (in %d of %d layouts)", len(out.Dropped), len(out.Pairs)+len(out.Dropped))
	}
	return s
}

func short(hex string) string {
	const shown = 32
	if len(hex) > shown {
		return hex[:shown] + "…"
	}
	return hex
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

// readSide reads a side. All errors are the user's to mend, but for a missing assembler.
func readSide(name, text string, std cli.Streams) (side, error) {
	s, err := parseSide(name, text, std)
	if host := (*verdict.HostError)(nil); err == nil || errors.As(err, &host) {
		return s, err
	}
	return s, cli.Usage(err)
}

// parseSide takes hexadecimal digits or assembly for a block, a file that cannot be executed for a file of
// blocks, and what begins with the name of a program for a command. Text that names a register and can be assembled
// is assembly even if its mnemonic is a program's name, as that of test is.
func parseSide(name, text string, std cli.Streams) (side, error) {
	code, hexErr := asm.ParseHex(text, profiler.MaxBlock)
	if hexErr == nil {
		return side{kind: aBlock, rows: []input.Row{{Text: text, Code: code}}}, nil
	}
	words, wordsErr := program.Words(text)
	isProgram := false
	if len(words) > 0 {
		_, err := exec.LookPath(words[0])
		isProgram = err == nil
	}
	_, statErr := os.Stat(text)
	isFile := text == "-" || !errors.Is(statErr, os.ErrNotExist)
	if isAssembly := measuring.AssemblyHint(text) != ""; !isFile && (isAssembly || !isProgram) {
		code, err := measuring.Assemble(text)
		switch {
		case err == nil && len(code) <= profiler.MaxBlock:
			return side{kind: aBlock, rows: []input.Row{{Text: text, Code: code}}}, nil
		case err == nil:
			return side{}, fmt.Errorf("%s: %d bytes of code; give one block of at most %d", name, len(code), profiler.MaxBlock)
		case isAssembly && !isProgram:
			return side{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if isProgram {
		return side{kind: aCommand, words: words}, nil
	}
	if !isFile {
		if wordsErr != nil {
			return side{}, fmt.Errorf("%s: %w", name, wordsErr)
		}
		return side{}, fmt.Errorf("%s %s is not a block (%v), a file or a program", name, text, hexErr)
	}
	in, err := rowfile.OpenBlocks([]string{text}, std.In, "")
	if err != nil {
		return side{}, fmt.Errorf("%s: %w", name, err)
	}
	defer in.Close()
	s := side{kind: aFile}
	for row, err := range resultfile.Each(in.Next) {
		if err != nil {
			return s, fmt.Errorf("%s: reading %s: %w", name, text, err)
		}
		s.rows = append(s.rows, row)
	}
	in.Unplaced().Warn(std.Err)
	if len(s.rows) == 0 {
		return s, fmt.Errorf("%s: %s holds no block", name, text)
	}
	return s, nil
}

package predict

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/profiler"
)

type file struct {
	name   string
	column string
	scale  float64
	open   func(string) ([]string, iter.Seq2[[]string, error], error)
}

func newFile(name string, s *settings, o Options) (Source, error) {
	scale, err := s.number("scale", 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &file{name: name, column: s.take("column", ""), scale: scale, open: o.Open}, nil
}

func (f *file) String() string { return f.name }

// gematriaKeys are of BasicBlockWithThroughputProto as JSON, in either spelling, which holds no code in hexadecimal.
var gematriaKeys = []string{"basic_block", "basicBlock", "inverse_throughputs", "inverseThroughputs"}

// Columns finds the columns of blocks and cycles in a table. The column of blocks is named hex, or is the first of a
// table without a header, whose first row then stands in names. The column of cycles is the given one, or named cycles,
// prediction or predicted, or the only other one.
func Columns(names []string, column string) (block, cycles int, headless bool, err error) {
	_, headless = Digits(names[0])
	block = slices.Index(names, "hex")
	switch {
	case block >= 0:
		headless = false
	case headless:
		block = 0
	default:
		hint := ""
		if len(names) == 1 && strings.ContainsAny(names[0], "\t;") {
			hint = "; columns are separated by commas"
		}
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(gematriaKeys, n) }) {
			hint = "; of Gematria's JSON take the cycles, and write lines hex,cycles"
		}
		return 0, 0, false, fmt.Errorf("it has no column hex, and its first row does not begin with a block: %.100s%s", strings.Join(names, ","), hint)
	}
	if column != "" {
		cycles = slices.Index(names, column)
		if n, err := strconv.Atoi(column); cycles < 0 && err == nil && n >= 1 && n <= len(names) {
			cycles = n - 1
		}
		if cycles < 0 || cycles == block {
			return 0, 0, false, fmt.Errorf("it has no column %s of cycles; there are %s", column, strings.Join(names, ", "))
		}
		return block, cycles, headless, nil
	}
	for _, name := range []string{"cycles", "prediction", "predicted"} {
		if i := slices.Index(names, name); i >= 0 {
			return block, i, headless, nil
		}
	}
	if len(names) == 2 {
		return block, 1 - block, headless, nil
	}
	return 0, 0, false, fmt.Errorf("say which column holds the cycles, with column=NAME; there are %s", strings.Join(names, ", "))
}

// Digits spells a block as results do: lower case, without the spaces and 0x of a corpus.
func Digits(text string) (string, bool) {
	code, err := asm.ParseHex(text, profiler.MaxBlock)
	return hex.EncodeToString(code), err == nil
}

func (f *file) Predict(ctx context.Context, blocks []string) ([]score.Prediction, error) {
	names, rows, err := f.open(f.name)
	if err != nil {
		return nil, usage("%w", err)
	}
	if len(names) == 0 {
		return nil, usage("%s: it is empty", f.name)
	}
	block, cycles, headless, err := Columns(names, f.column)
	if err != nil {
		return nil, usage("%s: %w", f.name, err)
	}
	why := slices.IndexFunc(names, func(n string) bool { return n == "failure" || n == "error" || n == "reason" })
	index := make(map[string]int32, len(blocks))
	out := make([]score.Prediction, len(blocks))
	missing := score.Failed("not in " + f.name)
	for i, b := range blocks {
		index[b] = int32(i)
		out[i] = missing
	}
	take := func(cells []string) {
		if block >= len(cells) || cycles >= len(cells) {
			return
		}
		digits, _ := Digits(cells[block])
		if i, asked := index[digits]; asked && !out[i].Known() { // the first row counts
			out[i] = f.read(cells, cycles, why)
		}
	}
	if headless {
		take(names)
	}
	for cells, err := range rows {
		if err != nil {
			return nil, usage("%s: %w", f.name, err)
		}
		take(cells)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return out, nil
}

func (f *file) read(cells []string, cycles, why int) score.Prediction {
	text := strings.TrimSpace(cells[cycles])
	v, err := strconv.ParseFloat(text, 64)
	p := score.Prediction{Cycles: v * f.scale}
	if err == nil && p.Known() {
		return p
	}
	switch {
	case why >= 0 && why < len(cells) && cells[why] != "":
		return score.Failed(oneLine(cells[why]))
	case text == "":
		return score.Failed("no prediction in " + f.name)
	}
	return score.Failed(fmt.Sprintf("%s has %.40q", f.name, text))
}

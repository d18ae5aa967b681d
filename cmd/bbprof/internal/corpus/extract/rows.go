package extract

import (
	"context"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// Rows selects how blocks are written.
type Rows struct {
	Unique bool // each block once, with counts added
	Text   bool // with a column asm
	Lines  bool // with a column source_line
	Loops  bool // only blocks that branch to their own start, with their branches and a column loop_depth
	Timed  bool // with a column cycles_in_place
	Syntax assemble.Syntax
}

const (
	InPlaceColumn = "cycles_in_place" // mean cycles of a block in its program
	SourceColumn  = "source_line"     // file:line
)

// Columns lists the corpus columns that Write writes.
func (r Rows) Columns() []string {
	names := []string{"hex", "file", "function", "address", "instructions", "bytes", "terminator", "weight", "count", "relocated", "section", "category"}
	if r.Text {
		names = append(names, "asm")
	}
	if r.Loops {
		names = append(names, "loop_depth")
	}
	if r.Lines {
		names = append(names, SourceColumn)
	}
	if r.Timed {
		names = append(names, InPlaceColumn)
	}
	return names
}

// Write writes the blocks of the files as CSV with a header.
func Write(ctx context.Context, w io.Writer, files []string, opts Options, rows Rows) (Stats, error) {
	var stats Stats
	opts.Lines, opts.Loops = rows.Lines, rows.Loops
	out := &rowWriter{ctx: ctx, csv: csv.NewWriter(w), rows: rows}
	if rows.Unique {
		out.seen = map[string]int{}
	}
	if err := out.csv.Write(rows.Columns()); err != nil {
		return stats, err
	}
	if opts.Profile != nil {
		if err := out.sum(ctx, files, opts); err != nil {
			return stats, err
		}
	}
	for _, name := range files {
		if err := File(ctx, name, opts, &stats, out.block); err != nil {
			return stats, err
		}
	}
	if err := out.flush(); err != nil {
		return stats, err
	}
	return stats, nil
}

// A rowWriter writes blocks at once or, if Unique, at the end.
type rowWriter struct {
	ctx  context.Context
	csv  *csv.Writer
	rows Rows
	cell []string

	total uint64         // executions of all blocks of these files, selected or not; 0 if unknown
	seen  map[string]int // index in kept, by code
	kept  []Block
}

// sum adds up the total that weights are shares of.
func (w *rowWriter) sum(ctx context.Context, files []string, opts Options) error {
	all := Options{Cut: opts.Cut, Profile: opts.Profile, Lenient: opts.Lenient}
	for _, name := range files {
		err := File(ctx, name, all, new(Stats), func(b *Block) error {
			w.total += b.Count
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *rowWriter) block(b *Block) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.seen == nil {
		return w.write(b)
	}
	if i, ok := w.seen[string(b.Code)]; ok {
		w.kept[i].Count += b.Count
		w.kept[i].InPlace.Cycles += b.InPlace.Cycles
		w.kept[i].InPlace.Runs += b.InPlace.Runs
		return nil
	}
	code := string(b.Code)
	w.seen[code] = len(w.kept)
	k := *b
	k.Code = []byte(code)
	w.kept = append(w.kept, k)
	return nil
}

func (w *rowWriter) flush() error {
	for i := range w.kept {
		if err := w.write(&w.kept[i]); err != nil {
			return err
		}
	}
	w.csv.Flush()
	return w.csv.Error()
}

func (w *rowWriter) write(b *Block) error {
	weight := ""
	if w.total > 0 {
		weight = strconv.FormatFloat(float64(b.Count)/float64(w.total), 'g', 6, 64)
	}
	w.cell = append(w.cell[:0],
		hex.EncodeToString(b.Code), b.File, b.Function, "0x"+strconv.FormatUint(b.Addr, 16),
		strconv.Itoa(b.Instructions), strconv.Itoa(len(b.Code)), b.Terminator,
		weight, strconv.FormatUint(b.Count, 10), strconv.FormatBool(b.Relocated), b.Section, string(asm.CategoryOfCode(b.Code)))
	if w.rows.Text {
		w.cell = append(w.cell, assemble.Block(b.Code, w.rows.Syntax))
	}
	if w.rows.Loops {
		w.cell = append(w.cell, strconv.Itoa(b.Depth))
	}
	if w.rows.Lines {
		w.cell = append(w.cell, b.Source)
	}
	if w.rows.Timed {
		w.cell = append(w.cell, b.InPlace.Mean())
	}
	return w.csv.Write(w.cell)
}

// Summary reports in a few lines what was found and what was omitted.
func (s Stats) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s in %s\n", words.Plural(s.Blocks, "block"), words.Plural(s.Functions, "function"), words.Plural(s.Files, "file"))
	note := func(n uint64, format string, args ...any) {
		if n > 0 {
			fmt.Fprintf(&b, format+"\n", args...)
		}
	}
	note(uint64(s.CutShort), "%d functions do not decode through: %d bytes of theirs are left out", s.CutShort, s.BytesCutShort)
	note(s.Unclaimed, "%d bytes that nothing leads to do not read as code and are left out", s.Unclaimed)
	note(uint64(s.Overlaps), "%d branches into the middle of an instruction start no block", s.Overlaps)
	note(uint64(s.BadRelocations), "%d relocations are unknown or damaged and fill nothing", s.BadRelocations)
	note(uint64(s.BadFrames), "%d tables of functions are damaged or of an unknown kind", s.BadFrames)
	note(uint64(s.PassedOver), "%d files that ran cannot be read and are passed over", s.PassedOver)
	note(uint64(s.Whole), "%d sections name no functions: only what their first byte leads to is taken", s.Whole)
	if s.Executed > 0 && s.Found > 0 {
		note(1, "%.2f %% of what ran in these files is in blocks, or in the transfers that end them", 100*float64(s.Found)/float64(s.Executed))
	}
	return b.String()
}

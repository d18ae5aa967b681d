package extract

import (
	"context"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

const (
	InPlaceColumn = "cycles_in_place" // mean cycles of a block in its program
	SourceColumn  = "source_line"     // file:line
)

// columns lists the corpus columns that Write writes.
func (o Options) columns() []string {
	names := []string{"hex", "file", "function", "address", "instructions", "bytes", "terminator", "weight", "count", "relocated", "section", "category"}
	if o.Text {
		names = append(names, "asm")
	}
	if o.Loops {
		names = append(names, "blocks", "entry", "exits", "loop_depth")
	}
	if o.Lines {
		names = append(names, SourceColumn)
	}
	if o.timed() {
		names = append(names, InPlaceColumn)
	}
	return names
}

func (o Options) timed() bool { return o.Profile != nil && o.Profile.Timed }

// Write writes the blocks of the files as CSV with a header: at once, or at the end if that depends on all of them.
func Write(ctx context.Context, w io.Writer, files []string, opts Options) (stats Stats, err error) {
	out := csv.NewWriter(w)
	if err := out.Write(opts.columns()); err != nil {
		return stats, err
	}
	var kept []*Block
	first := map[string]*Block{} // by code
	take := func(b *Block) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if opts.Unique {
			code := string(b.Code)
			if known := first[code]; known != nil {
				known.Count += b.Count
				known.InPlace.Cycles += b.InPlace.Cycles
				known.InPlace.Runs += b.InPlace.Runs
				return nil
			}
			first[code] = b
		}
		if !opts.Unique && opts.Profile == nil {
			return out.Write(opts.row(b, 0))
		}
		b.Code = slices.Clone(b.Code) // lets the file go
		kept = append(kept, b)
		return nil
	}
	for _, name := range files {
		if err := File(ctx, name, opts, &stats, take); err != nil {
			return stats, err
		}
	}
	for _, b := range kept {
		if err := out.Write(opts.row(b, stats.BlockRuns)); err != nil {
			return stats, err
		}
	}
	out.Flush()
	return stats, out.Error()
}

// loop counts a loop, and why it has no row.
func (s *Stats) loop(l natural, why string) {
	s.Loops++
	if l.innermost {
		s.Innermost++
	}
	switch {
	case why == "" && l.innermost:
		s.InnermostFound++
	case why != "":
		if s.LeftOut == nil {
			s.LeftOut = map[string]int{}
		}
		s.LeftOut[why]++
	}
}

// row formats a block, with its share of all blocks' runs if these are known.
func (o Options) row(b *Block, runs uint64) []string {
	weight := ""
	if runs > 0 {
		weight = strconv.FormatFloat(float64(b.Count)/float64(runs), 'g', 6, 64)
	}
	cells := []string{hex.EncodeToString(b.Code), b.File, b.Function, "0x" + strconv.FormatUint(b.Addr, 16),
		strconv.Itoa(b.Instructions), strconv.Itoa(len(b.Code)), b.Terminator,
		weight, strconv.FormatUint(b.Count, 10), strconv.FormatBool(b.Relocated), b.Section, string(asm.CategoryOfCode(b.Code))}
	if o.Text {
		cells = append(cells, assemble.Block(b.Code, o.Syntax))
	}
	if o.Loops {
		cells = append(cells, strconv.Itoa(b.Blocks), strconv.Itoa(b.Entry), strconv.Itoa(b.Exits), strconv.Itoa(b.Depth))
	}
	if o.Lines {
		cells = append(cells, b.Source)
	}
	if o.timed() {
		cells = append(cells, b.InPlace.mean())
	}
	return cells
}

// Summary reports in a few lines what was found and what was omitted.
func (s Stats) Summary() []string {
	what := "block"
	if s.Loops > 0 {
		what = "loop"
	}
	lines := []string{fmt.Sprintf("%s of %s in %s", words.Plural(s.Blocks, what), words.Plural(s.Functions, "function"), words.Plural(s.Files, "file"))}
	note := func(n int, format string, args ...any) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	note(s.Loops, "loops: %d, innermost %d, of these with a row %d", s.Loops, s.Innermost, s.InnermostFound)
	for _, why := range words.ByCount(s.LeftOut) {
		note(s.LeftOut[why], "%s left out: %s", words.Plural(s.LeftOut[why], "loop"), why)
	}
	note(s.CutShort, "%d functions do not decode through: %d bytes of theirs are left out", s.CutShort, s.BytesCutShort)
	note(s.Unclaimed, "%d bytes that nothing leads to do not read as code and are left out", s.Unclaimed)
	note(s.BadRelocations, "%d relocations are unknown or damaged and fill nothing", s.BadRelocations)
	note(s.BadFrames, "%d tables of functions are damaged or of an unknown kind", s.BadFrames)
	note(s.PassedOver, "%d files that ran cannot be read and are passed over", s.PassedOver)
	if s.Found > 0 {
		lines = append(lines, fmt.Sprintf("%.2f %% of what ran in these files is in blocks, or in the transfers that end them",
			100*float64(s.Found)/float64(s.Executed)))
	}
	return lines
}

package account

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/extract"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/profiler"
)

// Read reads results of bbprof batch. Each further one measures what those before it rejected; a loop's measurement
// takes the place of those of its blocks.
func Read(files []string, stdin io.Reader, notes io.Writer) (blocks []Block, err error) {
	at := map[string]int{} // index of each row's block
	loops := loopsByPlace{}
	for _, name := range files {
		if blocks, err = add(name, stdin, notes, blocks, at, loops); err != nil {
			return nil, err
		}
	}
	loops.replace(blocks)
	return blocks, nil
}

func add(name string, stdin io.Reader, notes io.Writer, blocks []Block, at map[string]int, loops loopsByPlace) ([]Block, error) {
	in, err := resultfile.OpenRows(name, stdin)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	visits := in.Schema.Index("state") >= 0 // of batch -state: several rows a block, without counts
	needed := []string{"status", "function", "count"}
	if visits {
		needed[2] = "offset"
	}
	if err := in.Schema.Require(needed...); err != nil {
		return nil, in.Error(fmt.Errorf("%w; make it with bbprof batch of what bbprof extract -run writes", err))
	}
	if visits && len(blocks) == 0 {
		return nil, in.Error(errors.New("it is of batch -state, and has no counts; name what bbprof batch made of the blocks of bbprof extract -run first"))
	}
	earlier := len(blocks)
	taken := map[int]float64{} // visits by block
	resolved := map[string]string{}
	for row, err := range in.All() {
		if err != nil {
			return nil, err
		}
		file := row.Cell("file")
		if resolved[file] == "" {
			resolved[file] = extract.Resolved(file)
		}
		b, err := blockOf(row, resolved[file])
		if err != nil {
			return nil, err
		}
		if row.Cell("entry") != "" {
			if err := loops.add(row, b); err != nil {
				return nil, err
			}
			continue
		}
		key := strings.Join([]string{b.File, cmp.Or(row.Cell("offset"), row.Cell("address")), row.Cell("hex")}, " ")
		i, again := at[key]
		switch {
		case visits && (!again || !b.Measured || blocks[i].Measured && taken[i] == 0): // of no use, or an earlier result measured it
		case visits: // the mean of them
			taken[i]++
			blocks[i].Measured = true
			blocks[i].Cycles += (b.Cycles - blocks[i].Cycles) / taken[i]
		case !again || i >= earlier:
			at[key] = len(blocks)
			blocks = append(blocks, b)
		case !blocks[i].Measured:
			blocks[i] = b
		}
	}
	in.LeftOut(notes)
	return blocks, nil
}

func blockOf(row resultfile.Row, file string) (b Block, err error) {
	address, _ := strconv.ParseUint(cmp.Or(row.Cell("offset"), row.Cell("address")), 0, 64) // 0: unknown, and in no loop
	branch := row.Cell("branch")
	inCode := branch != "" && branch != string(profiler.Drop)
	b = Block{
		Address: address, Place: Place{File: file, Function: row.Cell("function")}, Terminated: row.Cell("terminator") != "" && !inCode,
		Measured: row.Cell("status") == string(profiler.OK), Line: row.Cell(extract.SourceColumn),
	}
	instructions := "input_instructions" // batch renames a corpus column if it has one of the same name
	if row.Cell(instructions) == "" {
		instructions = "instructions"
	}
	for column, to := range map[string]*float64{"count": &b.Count, instructions: &b.Instructions, "cycles": &b.Cycles, extract.InPlaceColumn: &b.InPlace} {
		if row.Cell(column) == "" { // for example a rejected block
			continue
		}
		if *to, err = row.Float(column); err != nil {
			return b, err
		}
	}
	if inCode {
		b.Instructions++ // extract counts it as the terminator
	}
	return b, nil
}

// A loop is measured from visits of it.
type loop struct {
	file       string
	insts      []uint64 // addresses of its instructions
	header     uint64
	cycles     float64 // of all iterations of its visits
	iterations float64
}

type loopsByPlace map[string]*loop

func (all loopsByPlace) add(row resultfile.Row, b Block) error {
	entry, err := row.Float("entry")
	iterations := 0.0
	if err == nil && b.Measured {
		iterations, err = row.Float("unroll_long")
	}
	if err == nil && row.Cell("skipped") != "" {
		skipped := 0.0
		skipped, err = row.Float("skipped")
		iterations += skipped
	}
	if err != nil || !b.Measured {
		return err
	}
	key := fmt.Sprint(b.File, " ", b.Address, " ", row.Cell("hex"))
	if all[key] == nil {
		code, err := asm.ParseHex(row.Cell("hex"), profiler.MaxBlock)
		if err != nil {
			return row.Error(err)
		}
		region, err := asm.RegionOf(code, int(entry))
		if err != nil {
			return row.Error(err)
		}
		l := &loop{file: b.File, header: b.Address + uint64(entry)}
		for i := range region.Insts {
			l.insts = append(l.insts, b.Address+uint64(region.Insts[i].Offset))
		}
		all[key] = l
	}
	all[key].cycles += iterations * b.Cycles
	all[key].iterations += iterations
	return nil
}

// replace gives the block at each loop's header the cycles of an iteration, since it is executed as often, and the
// loop's other blocks none. Of loops in each other the outer one counts.
func (all loopsByPlace) replace(blocks []Block) {
	replaced := map[int]bool{}
	bySize := slices.SortedFunc(maps.Values(all), func(a, b *loop) int {
		return cmp.Or(cmp.Compare(len(b.insts), len(a.insts)), cmp.Compare(a.header, b.header))
	})
	for _, l := range bySize {
		var within []int
		header := -1
		for i := range blocks {
			b := &blocks[i]
			if _, in := slices.BinarySearch(l.insts, b.Address); b.File != l.file || !in {
				continue
			}
			within = append(within, i)
			if b.Address == l.header {
				header = i
			}
		}
		if header < 0 || replaced[header] {
			continue
		}
		for _, i := range within {
			replaced[i] = true
			blocks[i].Measured, blocks[i].Terminated, blocks[i].Cycles = true, false, 0
		}
		blocks[header].Cycles = l.cycles / l.iterations
	}
}

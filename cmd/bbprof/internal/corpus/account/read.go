package account

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/extract"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/profiler"
)

// Read reads results of bbprof batch. Each further one measures what those before it rejected.
func Read(files []string, stdin io.Reader, notes io.Writer) (blocks []Block, err error) {
	at := map[string]int{} // index of each row's block
	for _, name := range files {
		if blocks, err = add(name, stdin, notes, blocks, at); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

func add(name string, stdin io.Reader, notes io.Writer, blocks []Block, at map[string]int) ([]Block, error) {
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
	branch := row.Cell("branch")
	inCode := branch != "" && branch != string(profiler.Drop)
	b = Block{
		Place: Place{File: file, Function: row.Cell("function")}, Terminated: row.Cell("terminator") != "" && !inCode,
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

package corpus

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/profiler"
)

// stateColumn is the corpus column that names the captured state from which a row's block starts.
const stateColumn = "state"

// openStates opens a file of captured states and its corpus: the named files, or else the index of the states.
func (b *batchFlags) openStates(std cli.Streams) (*states.Reader, *input.Input, error) {
	if b.state == "" {
		in, err := input.Open(b.files, std.In, b.column, resultfile.Reserved())
		return nil, in, err
	}
	file, err := states.Open(b.state)
	if err != nil {
		return nil, nil, fmt.Errorf("-state: %w", err)
	}
	files, from := b.files, std.In
	if len(files) == 0 {
		var index bytes.Buffer
		if err := file.WriteIndex(&index); err != nil {
			return nil, nil, err
		}
		files, from = []string{"-"}, io.Reader(&index)
	}
	in, err := input.Open(files, from, b.column, resultfile.Reserved())
	if err == nil && !slices.Contains(in.Carried(), stateColumn) {
		err = fmt.Errorf("-state: the input has no column %s; bbprof capture -index %s writes a corpus that has", stateColumn, b.state)
	}
	return file, in, err
}

func visitOf(in *input.Input) func(*input.Row) string {
	at := slices.Index(in.Carried(), stateColumn)
	return func(row *input.Row) string {
		if at >= len(row.Carried) {
			return ""
		}
		return row.Carried[at]
	}
}

// startFrom starts a block from the captured state named by its set-up. A block that does not fit the state is not run.
// A damaged file is an *input.ReadError.
func startFrom(file *states.Reader, b *profiler.Block) error {
	_, number, ok := blockflags.CutState(b.Setup.Visit)
	if !ok {
		return fmt.Errorf("column %s: %q is not FILE#N", stateColumn, b.Setup.Visit)
	}
	visit, err := file.At(number)
	switch {
	case err != nil && 0 < number && number <= len(file.Index()):
		err = &input.ReadError{Err: err}
	case err == nil && !strings.EqualFold(visit.Hex, hex.EncodeToString(b.Code)):
		err = errors.New("it is a state of another block, " + visit.Hex)
	}
	if err != nil {
		b.Code = nil
		return fmt.Errorf("state %s: %w", b.Setup.Visit, err)
	}
	b.Setup.Captured = &visit.Before
	return nil
}

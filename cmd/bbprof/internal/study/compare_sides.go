package study

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowfile"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func short(hex string) string {
	const shown = 32
	if len(hex) > shown {
		return hex[:shown] + "…"
	}
	return hex
}

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

// readSide reads a side. All errors are user errors except a missing assembler.
func readSide(name, text string, std cli.Streams) (side, error) {
	s, err := parseSide(name, text, std)
	if host := (*verdict.HostError)(nil); err == nil || errors.As(err, &host) {
		return s, err
	}
	return s, cli.Usage(err)
}

// parseSide takes hex digits or assembly for a block, a file that is not executable for a file of blocks, and words
// that begin with a program's name for a command. Text that names a register and assembles is assembly even if its
// mnemonic is also a program, such as test.
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
		code, start, err := measuring.Assemble(text)
		switch {
		case err == nil && len(start.Memory) > 0:
			return side{}, fmt.Errorf("%s: %s", name, measuring.OnlyFill)
		case err == nil && len(code) <= profiler.MaxBlock:
			return side{kind: aBlock, rows: []input.Row{{Text: text, Code: code, Set: start.Set, At: start.At}}}, nil
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
	in.Ignored().Warn(std.Err)
	if len(s.rows) == 0 {
		return s, fmt.Errorf("%s: %s holds no block", name, text)
	}
	return s, nil
}

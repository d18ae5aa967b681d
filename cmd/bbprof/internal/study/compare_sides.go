package study

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func short(hex string) string { return words.Cut(hex, 32) }

type side struct {
	kind  kind
	row   input.Row
	words []string
}

type kind string

const (
	aBlock   kind = "block"
	aCommand kind = "program"
)

// readSide reads a side. All errors are user errors except a missing assembler.
func (c *compareCmd) readSide(name, text string) (s side, err error) {
	if c.link {
		s.kind = aCommand
		s.words, err = launch.Words(text)
	} else {
		s, err = parseSide(text)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	if err == nil || errors.As(err, new(*verdict.HostError)) {
		return s, err
	}
	return s, cli.Usage(err)
}

// parseSide takes hex digits or assembly for a block, and words that begin with a program's name for a command. Text
// that names a register and assembles is assembly even if its mnemonic is also a program, such as test.
func parseSide(text string) (s side, err error) {
	code, hexErr := asm.ParseHex(text, profiler.MaxBlock)
	if hexErr == nil {
		return side{kind: aBlock, row: input.Row{Text: text, Code: code}}, nil
	}
	words, wordsErr := launch.Words(text)
	isProgram := false
	if len(words) > 0 {
		_, err := exec.LookPath(words[0])
		isProgram = err == nil
	}
	_, statErr := os.Stat(text)
	isFile := text == "-" || !errors.Is(statErr, os.ErrNotExist)
	if isAssembly := blockflags.AssemblyHint(text) != ""; !isFile && (isAssembly || !isProgram) {
		code, start, err := blockflags.Assemble(text)
		switch {
		case err == nil && len(start.Memory) > 0:
			return s, errors.New(blockflags.OnlyFill)
		case err == nil && len(code) <= profiler.MaxBlock:
			return side{kind: aBlock, row: input.Row{Text: text, Code: code, Set: start.Set, At: start.At}}, nil
		case err == nil:
			return s, fmt.Errorf("%d bytes of code; give one block of at most %d", len(code), profiler.MaxBlock)
		case isAssembly && !isProgram:
			return s, err
		}
	}
	switch {
	case isProgram:
		return side{kind: aCommand, words: words}, nil
	case isFile:
		return s, errors.New("a file: bbprof check compares two files of blocks, or two builds")
	case wordsErr != nil:
		return s, wordsErr
	}
	return s, fmt.Errorf("%s is not a block (%v) or a program", text, hexErr)
}

// readSuite reads a file with the columns name, a and b, and optionally args and stdin.
func (c *compareCmd) readSuite(stdin io.Reader) (suite []member, err error) {
	in, err := resultfile.OpenRows(c.suite, stdin, "name", "a", "b")
	if errors.As(err, new(*fs.PathError)) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w; write a header, name,a,b, and a line for each program", err)
	}
	defer in.Close()
	for row, err := range in.All() {
		if err != nil {
			return nil, err
		}
		m := member{name: row.Cell("name"), stdin: row.Cell("stdin"), sides: make([][]string, 2)}
		for column, words := range map[string]*[]string{"a": &m.sides[0], "b": &m.sides[1], "args": &m.args} {
			if *words, err = launch.Words(row.Cell(column)); err == nil && len(*words) == 0 && column != "args" {
				err = fmt.Errorf("column %s is empty: write a command line", column)
			}
			if err != nil {
				return nil, row.Error(err)
			}
		}
		if len(m.args) > 0 && !c.link {
			return nil, row.Error(errors.New("column args is for programs that -link links: without it, a program's arguments are part of a and b"))
		}
		if slices.ContainsFunc(suite, func(other member) bool { return other.name == m.name }) {
			return nil, row.Error(fmt.Errorf("another row is named %q: give each a name of its own", m.name))
		}
		suite = append(suite, m)
	}
	if suite == nil {
		err = in.Error(errors.New("it names no program: write a header, name,a,b, and a line for each"))
	}
	return suite, err
}

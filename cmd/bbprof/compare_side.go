package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/profiler"
)

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
		return side{}, fmt.Errorf("%s %s is not a block (%v), a file or a program", name, text, hexErr)
	}
	if err != nil {
		return side{}, fmt.Errorf("%s: %w", name, err)
	}
	defer in.Close()
	s := side{kind: aFile}
	for row, err := range each(in.Next) {
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

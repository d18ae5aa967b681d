package input

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
)

// snippetText is a snippet of llvm-exegesis, which is a file of assembly that begins with annotations, as a row.
func snippetText(_ *file, in *bufio.Reader, _ *os.File) (io.Reader, func(), error) {
	if !startsSnippet(in) {
		return nil, nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, MaxRow+1))
	if err != nil {
		return nil, nil, &ReadError{err}
	}
	if len(text) > MaxRow {
		return nil, nil, fmt.Errorf("it is a snippet of more than %d bytes; give one block", MaxRow)
	}
	start, err := assemble.StartOf(string(text))
	if err != nil {
		return nil, nil, err
	}
	if len(start.Memory) > 0 {
		return nil, nil, fmt.Errorf("%sMEM-DEF: memory holds several values, and a row has one that fills all; measure it with bbprof -asm - < FILE", assemble.AnnotationMark)
	}
	tool, err := assemble.New()
	if err != nil {
		return nil, nil, fmt.Errorf("it is a snippet of llvm-exegesis, and %w; %s", err, assemble.Remedy)
	}
	code, err := tool.Block(context.Background(), string(text))
	if err != nil {
		return nil, nil, err
	}
	row := []string{hex.EncodeToString(code), strings.ReplaceAll(start.Set.String(), ",", ";"), ""}
	if start.At != nil {
		row[2] = fmt.Sprintf("%#x", *start.At)
	}
	err = nil
	next := func() ([]string, error) {
		defer func() { err = io.EOF }()
		return row, err
	}
	return newTable([]string{"hex", SetColumn, AddressColumn}, next), func() {}, nil
}

// startsSnippet reports whether an annotation stands among the comments and directives that a text begins with.
func startsSnippet(in *bufio.Reader) bool {
	for want := 1; ; {
		_, err := in.Peek(want)
		start, _ := in.Peek(in.Buffered())
		for line := range strings.Lines(string(start)) {
			whole := strings.HasSuffix(line, "\n")
			comment, is := strings.CutPrefix(strings.TrimSpace(line), "#")
			if is && whole && strings.HasPrefix(strings.TrimSpace(comment), assemble.AnnotationMark) {
				return true
			}
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != '.' {
				return false
			}
		}
		if want = len(start) + 1; err != nil && !errors.Is(err, bufio.ErrBufferFull) || len(start) >= sampleSize {
			return false
		}
	}
}

package input

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
)

// snippetText is a snippet of llvm-exegesis, which is a file of assembly that begins with annotations, as a row.
func snippetText(_ *file, in *bufio.Reader, _ *os.File) (io.Reader, error) {
	if !startsSnippet(in) {
		return nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, MaxRow+1))
	if err != nil {
		return nil, &ReadError{err}
	}
	if len(text) > MaxRow {
		return nil, fmt.Errorf("it is a snippet of more than %d bytes; give one block", MaxRow)
	}
	start, err := assemble.StartOf(string(text))
	if err != nil {
		return nil, err
	}
	if len(start.Memory) > 0 {
		return nil, fmt.Errorf("%sMEM-DEF: memory holds several values, and a row has one that fills all; "+
			"measure it with bbprof -asm - < FILE", assemble.AnnotationMark)
	}
	tool, err := assemble.New()
	if err != nil {
		return nil, fmt.Errorf("it is a snippet of llvm-exegesis, and %w; %s", err, assemble.Remedy)
	}
	code, err := tool.Block(context.Background(), string(text))
	if err != nil {
		return nil, err
	}
	at := ""
	if start.At != nil {
		at = fmt.Sprintf("%#x", *start.At)
	}
	row := fmt.Sprintf("hex,%s,%s\n%x,%s,%s\n", SetColumn, AddressColumn, code, strings.ReplaceAll(start.Set.String(), ",", ";"), at)
	return strings.NewReader(row), nil
}

// startsSnippet reports whether an annotation stands among the comments and directives that a text begins with.
func startsSnippet(in *bufio.Reader) (is bool) {
	peekUntil(in, func(start []byte) bool {
		for line := range strings.Lines(string(start)) {
			whole := strings.HasSuffix(line, "\n")
			line = strings.TrimSpace(line)
			comment, commented := strings.CutPrefix(line, "#")
			if is = commented && whole && strings.HasPrefix(strings.TrimSpace(comment), assemble.AnnotationMark); is {
				return true
			}
			if line != "" && line[0] != '#' && line[0] != '.' {
				return true
			}
		}
		return false
	})
	return is
}

package input

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
)

// asmColumn names the column of assembly in a corpus without machine code.
const asmColumn = "asm"

// notAssembled marks a cell that holds the assembler's error instead of a block.
const notAssembled = "\x01"

// atOnce is how many rows share a run of the assembler, which takes some 5 ms to start.
const atOnce = 512

// An assemblyReader prepends a column hex to a corpus that holds its blocks as assembly. It keeps line breaks, so
// that messages name the right lines.
type assemblyReader struct {
	generatedReader
	in   *LineSource
	tool *assemble.Assembler
	asm  int // index of the column; -1: a line is just a block
}

// assemblyText adds machine code to a corpus whose header has a column asm and no column of blocks.
func assemblyText(_ *file, in *bufio.Reader, _ *os.File) (io.Reader, error) {
	start, _ := peekUntil(in, func(start []byte) bool { return slices.Contains(start, '\n') })
	line, _, _ := strings.Cut(string(start), "\n")
	cells := trimmed(line, ',')
	at := indexFold(cells, asmColumn)
	if at < 0 || slices.ContainsFunc(blockNames, func(name string) bool { return indexFold(cells, name) >= 0 }) {
		return nil, nil
	}
	tool, err := assemble.New()
	if err != nil {
		return nil, fmt.Errorf("its blocks are in a column %s, and %w; %s", asmColumn, err, assemble.Remedy)
	}
	a := &assemblyReader{in: &LineSource{Reader: in}, tool: tool, asm: at}
	a.more = a.assemble
	if len(cells) == 1 {
		a.asm = -1
	}
	text, _ := in.ReadString('\n')
	a.ready.WriteString("hex," + text)
	return a, nil
}

// assemble assembles a row, and all further ones that are available without waiting.
func (a *assemblyReader) assemble() {
	var lines, texts []string
	var rows []int // for each text, its index in lines
	for len(lines) < atOnce && (len(lines) == 0 || a.in.Buffered() > 0) {
		line, err := a.line()
		if line != "" {
			lines = append(lines, line)
			if text := a.text(line); text != "" {
				texts, rows = append(texts, text), append(rows, len(lines)-1)
			}
		}
		if err != nil {
			a.err = err
			break
		}
	}
	results, err := a.tool.Blocks(context.Background(), texts)
	if err != nil {
		a.err = err
		return
	}
	cells := make([]string, len(lines))
	for n, r := range results {
		if r.Err != nil {
			cells[rows[n]] = `"` + notAssembled + strings.ReplaceAll(OneLine(reason(r.Err)), `"`, `""`) + `",`
		} else {
			cells[rows[n]] = hex.EncodeToString(r.Code) + ","
		}
	}
	for n, line := range lines {
		if a.asm < 0 && cells[n] != "" && !strings.HasPrefix(line, `"`) {
			line = `"` + strings.ReplaceAll(strings.TrimRight(line, "\r\n"), `"`, `""`) + "\"\n"
		}
		a.ready.WriteString(cells[n] + line)
	}
}

// reason formats the error of one row; the reader adds the line number.
func reason(err error) string {
	if bad := (*assemble.Error)(nil); errors.As(err, &bad) {
		return bad.Tool + ": " + bad.Message
	}
	return err.Error()
}

// line reads a line with its end, cut where the next reader refuses it.
func (a *assemblyReader) line() (string, error) {
	line, _, err := a.in.Line(2*MaxLine, MaxLine)
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return string(line), err
}

// text returns a line's assembly, "" if the line is not a row.
func (a *assemblyReader) text(line string) string {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return ""
	}
	if a.asm < 0 && line[0] != '"' {
		return line
	}
	cells, _ := Split(line, ',', nil)
	if i := max(a.asm, 0); i < len(cells) {
		if text := strings.TrimSpace(cells[i]); text != "" {
			return text
		}
	}
	return "; " // no instruction: the assembler reports it
}

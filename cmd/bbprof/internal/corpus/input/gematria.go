package input

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/gematria"
)

// gematriaText converts a Gematria file to CSV, with the columns of both kinds of block: the initial state of one,
// the throughput of the other.
func gematriaText(_ *file, in *bufio.Reader, _ *os.File) (io.Reader, error) {
	if !gematria.StartsRecord(firstBytes(in)) {
		return nil, nil
	}
	records := gematria.NewRecords(in)
	next := func() ([]string, error) {
		message, err := records.Next()
		if err != nil {
			return nil, err
		}
		t, a, err := gematria.Parse(message)
		if err != nil || a != nil {
			return annotatedCells(a), err
		}
		return throughputCells(t), nil
	}
	return newTable([]string{"hex", SetColumn, "gematria_source", "gematria_cycles"}, next), nil
}

// firstBytes returns as many bytes as StartsRecord needs, or fewer of text: in a pipe the next row may take long.
func firstBytes(in *bufio.Reader) []byte {
	start, _ := peekUntil(in, func(start []byte) bool {
		return len(start) >= gematria.HeadSize || len(start) > 2 && slices.Contains(start, '\n') && !slices.Contains(start, 0)
	})
	return start
}

func throughputCells(t *gematria.Throughput) []string {
	var code []byte
	for _, in := range t.Instructions {
		code = append(code, in.Code...)
	}
	var cycles []string
	for _, c := range t.Cycles {
		cycles = append(cycles, strconv.FormatFloat(c, 'g', -1, 64))
	}
	return []string{hex.EncodeToString(code), "", t.Source, strings.Join(cycles, " ")}
}

// annotatedCells omits the state that bbprof sets itself: flags, MXCSR (which Gematria gives as 0, all exceptions
// unmasked) and the x87 unit. Memory is mapped where the block accesses it.
func annotatedCells(a *gematria.Annotated) []string {
	if a == nil {
		return nil
	}
	var set []string
	for _, r := range a.Registers {
		name := strings.ToLower(r.Name)
		if name == "fs" || name == "gs" {
			name += "_base"
		}
		one := fmt.Sprintf("%s=%#x", name, r.Value)
		if !slices.Contains([]string{"eflags", "df", "mxcsr", "fpcw", "fpsw"}, name) && !isX87(name) {
			set = append(set, one)
		}
	}
	if a.Fill != 0 {
		set = append(set, fmt.Sprintf("fill=%#x", a.Fill))
	}
	return []string{a.Hex, strings.Join(set, ";"), "", ""}
}

// isX87 recognises LLVM's names of x87 registers: ST0, FP0, MM0.
func isX87(name string) bool {
	return strings.HasPrefix(name, "st") || strings.HasPrefix(name, "fp") || strings.HasPrefix(name, "mm")
}

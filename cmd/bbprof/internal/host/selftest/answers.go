package selftest

import (
	_ "embed"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/internal/cpu"
)

//go:embed answers.txt
var table string

type Kind string

const (
	Latency    Kind = "latency"    // each copy depends on the one before
	Throughput Kind = "throughput" // no dependencies
	Relation   Kind = "relation"   // by the core's own other times
)

type Block struct {
	Kind    Kind
	Text    string // Intel syntax, or a description
	Code    []byte
	Needs   []string // CPUID features
	Short   bool     // part of the short selftest
	Answers map[cpu.Name]Answer
	Note    string // why some have no answer, where it is not that none is known
}

// Answer is a block's time in core cycles per iteration: one number if Low equals High, else a guess.
type Answer struct{ Low, High float64 }

func (a Answer) exact() bool { return a.Low == a.High }

func (a Answer) String() string {
	if a.exact() {
		return fmt.Sprintf("%.3f", a.Low)
	}
	return fmt.Sprintf("%.3f to %.3f", a.Low, a.High)
}

// Tolerances of a measurement: that of the calibration chain, and that of a short block's
// interval.
const (
	toleranceShare  = 0.015
	toleranceCycles = 0.02
)

func tolerance(cycles float64) float64 {
	return math.Max(toleranceShare*cycles, toleranceCycles)
}

// AnswersOf is the core whose answers hold for a core: itself, the one that it is like, or cpu.Unknown.
func AnswersOf(core cpu.Name) cpu.Name {
	blocks, err := Blocks()
	if err != nil {
		return cpu.Unknown
	}
	for _, name := range []cpu.Name{core, cpu.Of(core).Like} {
		if slices.ContainsFunc(blocks, func(b Block) bool { _, known := b.Answers[name]; return known }) {
			return name
		}
	}
	return cpu.Unknown
}

func (a Answer) holds(cycles float64) bool {
	return a.Low-tolerance(a.Low) <= cycles && cycles <= a.High+tolerance(a.High)
}

func Blocks() ([]Block, error) { return parseTable(table) }

// The columns before those of the microarchitectures, and the one after.
const (
	colText = iota
	colHex
	colNeeds
	colShort
	firstAnswer
)

func parseTable(table string) (blocks []Block, err error) {
	var (
		kind    Kind
		columns []cpu.Name
	)
	for i, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		switch {
		case cells[colText] == "# text" && len(cells) <= firstAnswer+1:
			return nil, fmt.Errorf("answers.txt, line %d: no microarchitecture is named", i+1)
		case cells[colText] == "# text":
			for _, name := range cells[firstAnswer : len(cells)-1] {
				columns = append(columns, cpu.Name(name))
			}
		case cells[colText] == "" || strings.HasPrefix(line, "#"):
		case len(cells) == 1:
			kind = Kind(cells[colText])
		default:
			b, err := parseBlock(cells, columns)
			if err != nil {
				return nil, fmt.Errorf("answers.txt, line %d: %w", i+1, err)
			}
			b.Kind = kind
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

func parseBlock(cells []string, columns []cpu.Name) (b Block, err error) {
	note := firstAnswer + len(columns)
	if n := len(cells); n < note || n > note+1 {
		return b, fmt.Errorf("%d cells, want %d and perhaps a note", n, note)
	}
	b = Block{
		Text:    cells[colText],
		Needs:   strings.Fields(cells[colNeeds]),
		Short:   cells[colShort] == "short",
		Answers: map[cpu.Name]Answer{},
	}
	if len(cells) > note {
		b.Note = cells[note]
	}
	if b.Code, err = hex.DecodeString(cells[colHex]); err != nil {
		return b, err
	}
	for i, column := range columns {
		cell := cells[firstAnswer+i]
		if cell == "-" {
			continue
		}
		low, high, band := strings.Cut(cell, "..")
		if !band {
			high = low
		}
		var a Answer
		if a.Low, err = strconv.ParseFloat(low, 64); err != nil {
			return b, err
		}
		if a.High, err = strconv.ParseFloat(high, 64); err != nil {
			return b, err
		}
		b.Answers[column] = a
	}
	return b, nil
}

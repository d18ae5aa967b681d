package predict

import (
	"context"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
)

// Explanation is what a tool says of one block in its own words.
type Explanation struct {
	Assembly string // that it was given
	Command  string // on a file of that name
	Output   string
}

// Explainer is a source that can say more of a block than its cycles.
type Explainer interface {
	Explain(ctx context.Context, block, file string) (Explanation, error)
}

// Explain has llvm-mca print all that it prints of a block by default.
func (m *mca) Explain(ctx context.Context, block, file string) (Explanation, error) {
	answers := map[int]score.Prediction{}
	regions, err := disassemble(ctx, m.disassembler, m.timeout, []string{block}, []int{0}, answers)
	if err != nil || len(regions) == 0 {
		return Explanation{}, err
	}
	arguments := []string{"-mtriple=" + triple, "-mcpu=" + m.cpu, "-iterations=100"}
	e := Explanation{Assembly: strings.Join(regions[0].lines, "\n") + "\n", Command: m.tool + " " + strings.Join(append(arguments, file), " ")}
	if i := strings.LastIndexByte(m.tool, '/'); i >= 0 {
		e.Command = e.Command[i+1:]
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	out, _, err := pipe(ctx, e.Assembly, m.tool, append(arguments, "-")...)
	e.Output = string(out)
	return e, err
}

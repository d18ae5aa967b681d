package selftest

import (
	"slices"

	"github.com/bbprof/bbprof/internal/cpu"
)

// A Control is a block that shows whether a core is idle and its clock right.
type Control struct {
	Text    string
	Code    []byte
	Cycles  float64 // 0: not known to the last digit
	Latency bool    // so a whole number
}

// Controls returns a chain of single cycles, one of multiplies (which other work slows less), independent adds, loads, and
// nops, which only the front end limits.
func Controls(core cpu.Name) (list []Control, err error) {
	blocks, err := Blocks()
	core = AnswersOf(core)
	for _, b := range blocks {
		if !slices.Contains([]string{"add rax, rax", "imul rax, rax", "8 add", "6 mov from memory", "8 nop"}, b.Text) {
			continue
		}
		c := Control{Text: b.Text, Code: b.Code, Latency: b.Kind == Latency}
		if a := b.Answers[core]; a.exact() && c.Latency {
			c.Cycles = a.Low
		}
		list = append(list, c)
	}
	return list, err
}

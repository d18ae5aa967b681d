package sweep

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

const maxShift = 1 << 20

const codeOffset = "code_offset_bytes"

var Factors = []struct {
	Flag, Help    string
	column, label string // %s stands for the registers
	what          string // description of the values
	from, to      int
	set           func(s *profiler.Setup, regs []asm.Reg, value int)
}{
	{"code", "where the first copy stands, in bytes from the start of a page", codeOffset,
		"first copy, bytes from the start of a page", "offsets within a page", 0, layout.PageSize - 1,
		func(s *profiler.Setup, _ []asm.Reg, v int) { s.CodeOffset = &v }},
	{"data", "bytes added to the registers of -regs (default: rsp,rbp, as an environment does)",
		"data_offset_bytes", "bytes added to %s", "data offsets", -maxShift, maxShift,
		func(s *profiler.Setup, regs []asm.Reg, v int) {
			for _, r := range regs {
				s.Init.GPR[r] += uint64(v)
			}
		}},
	{"distance", "how many bytes the second of the two registers of -regs is above the first", "distance_bytes", "%s, bytes", "distances", -maxShift, maxShift,
		func(s *profiler.Setup, regs []asm.Reg, v int) { s.Init.GPR[regs[1]] = s.Init.GPR[regs[0]] + uint64(v) }},
	{"copies", "copies in the longer image, four times those of the shorter", "copies",
		"copies in the longer image, four times those of the shorter", "copies", 2, layout.CodeSize,
		func(s *profiler.Setup, _ []asm.Reg, v int) { s.Unroll = &unroll.Factors{Short: max(v/4, 1), Long: v} }},
	{"framecount", "on how many physical pages, called frames, the block's pages stand", "frames", "physical pages", "frames", 1, layout.MaxFrames,
		func(s *profiler.Setup, _ []asm.Reg, v int) { s.Frames = v }},
}

// Of returns the factor of a flag; regs come from -regs.
func Of(flag string, base profiler.Setup, regs []asm.Reg, values []int) (f Factor, err error) {
	switch {
	case flag == "distance" && (len(regs) != 2 || regs[0] == regs[1]):
		return f, errors.New("it is between two registers: name them with -regs, such as -regs rsi,rdi")
	case flag == "data" && regs == nil:
		regs = []asm.Reg{asm.RSP, asm.RBP}
	}
	var names []string
	for _, r := range regs {
		names = append(names, r.String())
	}
	of := strings.Join(names, ", ")
	if flag == "distance" {
		of = names[1] + " - " + names[0]
	}
	for _, k := range Factors {
		if k.Flag != flag {
			continue
		}
		if len(values) > 0 && (values[0] < k.from || values[len(values)-1] > k.to) {
			err = fmt.Errorf("%s go from %d to %d", k.what, k.from, k.to)
		}
		f = Factor{k.column, strings.ReplaceAll(k.label, "%s", of), values, func(v int) profiler.Setup {
			s, init := base, initial.Paper()
			if s.Init != nil {
				init = *s.Init
			}
			if s.Init = &init; base.Init == nil && len(regs) == 0 {
				s.Init = nil
			}
			k.set(&s, regs, v)
			return s
		}}
	}
	return f, err
}

package sweep

import (
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

func within(values []int, from, to int, what string) error {
	if len(values) > 0 && (values[0] < from || values[len(values)-1] > to) {
		return fmt.Errorf("%s go from %d to %d", what, from, to)
	}
	return nil
}

// Code varies where the first copy stands, in bytes from the start of a page.
func Code(base profiler.Setup, values []int) (Factor, error) {
	return Factor{"code_offset_bytes", "first copy, bytes from the start of a page", values, func(v int) profiler.Setup {
		base.CodeOffset = &v
		return base
	}}, within(values, 0, layout.PageSize-1, "offsets within a page")
}

// maxShift keeps what moves a pointer from moving it far.
const maxShift = 1 << 20

// Data adds to registers, the stack's for example, what the environment's size takes from it.
func Data(base profiler.Setup, registers []asm.Reg, values []int) (Factor, error) {
	var names []string
	for _, r := range registers {
		names = append(names, r.String())
	}
	return Factor{"data_offset_bytes", "bytes added to " + strings.Join(names, ", "), values, func(v int) profiler.Setup {
		return withInit(base, func(init *initial.State) {
			for _, r := range registers {
				init.GPR[r] += uint64(v)
			}
		})
	}}, within(values, -maxShift, maxShift, "data offsets")
}

// Distance lets the second pointer be so many bytes above the first.
func Distance(base profiler.Setup, from, to asm.Reg, values []int) (Factor, error) {
	return Factor{"distance_bytes", fmt.Sprintf("%v - %v, bytes", to, from), values, func(v int) profiler.Setup {
		return withInit(base, func(init *initial.State) { init.GPR[to] = init.GPR[from] + uint64(v) })
	}}, within(values, -maxShift, maxShift, "distances")
}

// Copies varies the unroll factor: the longer image has so many copies, the shorter a quarter.
func Copies(base profiler.Setup, values []int) (Factor, error) {
	const most = layout.CodeSize
	return Factor{"copies", "copies in the longer image, four times those of the shorter", values, func(v int) profiler.Setup {
		base.Unroll = &unroll.Factors{Short: max(v/4, 1), Long: v}
		return base
	}}, within(values, 2, most, "copies")
}

// Frames varies on how many physical pages the block's pages stand.
func Frames(base profiler.Setup, values []int) (Factor, error) {
	return Factor{"frames", "physical pages", values, func(v int) profiler.Setup {
		base.Frames = v
		return base
	}}, within(values, 1, layout.MaxFrames, "frames")
}

// withInit changes a copy of the set-up's initial state.
func withInit(s profiler.Setup, change func(*initial.State)) profiler.Setup {
	init := initial.Paper()
	if s.Init != nil {
		init = *s.Init
	}
	change(&init)
	s.Init = &init
	return s
}

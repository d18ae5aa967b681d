package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type setupFlags struct{ at int }

func (s *setupFlags) add(f *flags) {
	parsed(f, &s.at, parseOffset, "at", "N", "page offset of the first copy, 0 to 4095").fallback = "0"
}

func parseOffset(text string) (int, error) {
	return wholeNumber(text, 0, layout.PageSize-1, "write a number of bytes from 0 to %d", layout.PageSize-1)
}

// setup is what the flags and the options left to the profiler come to: one place for the
// code, one initial state.
func (s *setupFlags) setup(o *profiler.Options) profiler.Setup {
	init := initial.Paper()
	if i := slices.IndexFunc(initial.States(), func(i initial.State) bool { return i.Name == o.Init }); i >= 0 {
		init = initial.States()[i]
	}
	init = o.Set.Over(init)
	o.NoFTZ = o.NoFTZ && !o.Set.SetsMXCSR()
	return profiler.Setup{CodeOffset: &s.at, Init: &init}
}

func parseRegister(name string) (asm.Reg, error) {
	for r := asm.RAX; r <= asm.R15; r++ {
		if r.String() == strings.ToLower(strings.TrimSpace(name)) {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%q is not a general register; write its 64-bit name, such as rsp or r8", name)
}

func parseRegisters(text string) (regs []asm.Reg, err error) {
	for _, name := range strings.Split(text, ",") {
		r, err := parseRegister(name)
		if err != nil {
			return nil, err
		}
		regs = append(regs, r)
	}
	return regs, nil
}

// tolerateAll lets a block be measured in whatever set-up: what that costs is the question.
func tolerateAll() []verdict.Reason {
	return []verdict.Reason{
		verdict.Alias4K, verdict.AliasFrame, verdict.Misaligned, verdict.L1DMiss, verdict.L1IMiss,
		verdict.Nonlinear, verdict.Unstable,
	}
}

// oneMode checks options that must lead to one number a block.
func oneMode(o profiler.Options) error {
	if o.Mode == profiler.Both {
		return badUsage("-mode both gives two numbers; choose unroll or loop")
	}
	if strings.Contains(o.Init, ",") {
		return badUsage("-init %s gives two numbers; choose one state", o.Init)
	}
	if err := o.Check(); err != nil {
		return &usageError{err}
	}
	return nil
}

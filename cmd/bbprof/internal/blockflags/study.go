package blockflags

import (
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Study holds what the commands about one block share.
type Study struct {
	Opts  profiler.Options
	Block BlockFlags
	Out   cli.Output
	Plot  PlotFile
}

func (s *Study) OneOrFiles(files []string) error {
	switch {
	case len(files) == 0:
		return nil
	case s.Block.Given():
		return cli.BadUsage("-hex and %s: give a block or files", files[0])
	case s.Block.Flags.Has("address"):
		return cli.BadUsage("-address is for one block: a file has addresses in its column address")
	}
	return nil
}

func (s *Study) Show(std cli.Streams, found any, text string, base profiler.Result, figure func() plot.Figure) error {
	if base.Status != profiler.OK {
		text = Report(base)
	}
	if err := s.Out.Write(std, found, text); err != nil {
		return err
	}
	if base.Status == profiler.OK {
		if err := s.Plot.Draw(BlockSubject(base.Hex), s.Opts.CPUs, figure()); err != nil {
			return err
		}
	}
	return Outcome(base)
}

func Outcome(r profiler.Result) error {
	switch r.Status {
	case profiler.OK:
		return nil
	case profiler.Rejected:
		return cli.ErrRejected
	}
	return fmt.Errorf("internal failure: %s", r.Failure)
}

// OneSetup returns the set-up that the options amount to for a block: one initial state, and the code where the program
// has it in its page, if that is known, else at the start.
func OneSetup(o *profiler.Options, b profiler.Block) profiler.Setup {
	init, err := initial.Named(o.Init)
	if err != nil {
		init = initial.Paper() // unnamed
	}
	init = o.Set.Over(init)
	o.NoFTZ = o.NoFTZ && !o.Set.SetsMXCSR()
	place := 0
	if b.Setup.Address != nil {
		place = int(*b.Setup.Address % layout.PageSize)
	}
	return profiler.Setup{Address: b.Setup.Address, CodeOffset: &place, Init: &init}
}

func parseRegister(name string) (asm.Reg, error) {
	for r := asm.RAX; r <= asm.R15; r++ {
		if r.String() == strings.ToLower(name) {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%q is not a general register; write its 64-bit name, such as rsp or r8", name)
}

func ParseRegisters(text string) ([]asm.Reg, error) { return cli.ListOf(text, parseRegister) }

// TolerateAll accepts a block in any set-up, because the cost of the set-up is what is studied.
func TolerateAll() []verdict.Reason {
	return []verdict.Reason{
		verdict.Alias4K, verdict.AliasFrame, verdict.Misaligned, verdict.L1DMiss, verdict.L1IMiss, verdict.DTLBMiss,
		verdict.Nonlinear, verdict.Unstable,
	}
}

// OneMode rejects options that may give several numbers per block, and measures in mode if they name none.
func OneMode(o *profiler.Options, mode profiler.Mode) error {
	if o.Mode == profiler.Both {
		return cli.BadUsage("-mode both gives two numbers; choose unroll or loop")
	}
	if o.Mode == "" && o.Unroll == nil && o.FrontEnd != profiler.Decode {
		o.Mode = mode
	}
	if err := o.Check(); err != nil {
		return cli.Usage(err)
	}
	return nil
}

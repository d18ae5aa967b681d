package selftest

import (
	"context"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/recording"
	"github.com/bbprof/bbprof/internal/simulated"
	"github.com/bbprof/bbprof/profiler"
)

const (
	recordedStarts = 8
	recordedBlocks = 40
)

// Record makes a recording of this core: several starts, and blocks of known time.
func Record(ctx context.Context, opts profiler.Options) (*recording.Recording, error) {
	blocks, err := Blocks()
	if err != nil {
		return nil, err
	}
	cpu := host.Detect()
	r := &recording.Recording{Registers: registers(host.AskCPUID)}
	r.CPU = recording.CPU{Vendor: cpu.Vendor, Family: cpu.Family, Model: cpu.Model, Stepping: host.Stepping(host.AskCPUID), Core: string(cpu.Microarchitecture)}
	opts.Clock = profiler.TSCClock // recordings are of this clock
	open := simulated.NewProfiler.(func(context.Context, profiler.Options, simulated.Machine) (*profiler.Profiler, error))
	for start := range recordedStarts {
		p, err := open(ctx, opts, simulated.Machine{Record: r})
		if err != nil {
			return nil, err
		}
		if start == recordedStarts-1 {
			err = recordBlocks(ctx, p, r, blocks, cpu)
		}
		p.Close()
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// recordBlocks measures blocks with one exact answer, spread over the table.
func recordBlocks(ctx context.Context, p *profiler.Profiler, r *recording.Recording, blocks []Block, cpu host.CPU) error {
	var known []Block
	for _, b := range blocks {
		if a, ok := b.Answers[cpu.Microarchitecture]; ok && a.exact() && len(host.Missing(b.Needs)) == 0 {
			known = append(known, b)
		}
	}
	n := min(recordedBlocks, len(known))
	for i := range n {
		b := known[i*len(known)/n]
		a := b.Answers[cpu.Microarchitecture]
		r.Next = recording.Block{Code: b.Code, Low: a.Low, High: a.High}
		if _, err := p.Profile(ctx, profiler.Block{Code: b.Code}); err != nil {
			return err
		}
	}
	return nil
}

// registers are CPUID's answers for all leaves and their subleaves in use.
func registers(ask host.CPUID) (all []recording.Registers) {
	for _, first := range []uint32{0, 0x4000_0000, 0x8000_0000} {
		last, _, _, _ := ask(first, 0)
		for leaf := first; leaf <= min(last, first+0x40); leaf++ {
			for sub := range uint32(8) {
				var c recording.Registers
				c.Leaf, c.Subleaf = leaf, sub
				c.EAX, c.EBX, c.ECX, c.EDX = ask(leaf, sub)
				if sub > 0 && (c.EAX|c.EBX|c.ECX|c.EDX == 0 || c.SameAnswer(all[len(all)-1])) {
					break
				}
				all = append(all, c)
			}
		}
	}
	return all
}

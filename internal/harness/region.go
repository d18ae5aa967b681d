package harness

import (
	"github.com/bbprof/bbprof/asm"
)

// Region is a loop of any blocks that runs as it stands, from its header to one of its exits.
type Region struct {
	Insts  []asm.Inst
	Entry  int    // offset of the header in Code
	Before []byte // a jump to the end of Code, right before it
	Code   []byte // with exits that lead to its end: see asm.Region.Contained
}

// BuildRegion emits a region at the first place from at on at which it starts Harness.Offset bytes into a cache line.
func BuildRegion(at uint64, r Region, h Harness, dryRun bool) (Image, error) {
	im := Image{Address: (at + 63) &^ 63, Copies: 1, block: len(r.Code)}
	e := h.emitter(im.Address)
	im.Entry = im.Address
	if h.TimesFirst {
		storeStart(e, h.Clock)
	}
	if dryRun {
		dryRunPrologue(e, h.Init, h.Reset, h.Features)
	} else {
		Prologue(e, h.Init, h.Reset, h.Features)
	}
	const line, jump = 64, 5
	im.FirstCopy = (e.PC()+jump+uint64(len(r.Before))+line-1)&^(line-1) + uint64(h.Offset)
	e.Jmp(im.FirstCopy + uint64(r.Entry))
	e.Nop(int(im.FirstCopy - e.PC() - uint64(len(r.Before))))
	e.Raw(r.Before...)
	e.Raw(r.Code...)
	im.Code = e.Bytes()
	for i := range r.Insts {
		in := &r.Insts[i]
		if in.RIPDisp == 0 {
			continue
		}
		code, err := h.relocate(in, i, im.FirstCopy+uint64(in.Offset))
		if err != nil {
			return im, err
		}
		copy(im.Code[int(im.FirstCopy-im.Address)+in.Offset:], code)
	}
	if !dryRun {
		// A wait for stores would enter the pipeline beside the last iterations where the exit is predicted: see buildOwn.
		e.Lfence()
	}
	h.end(e, im.Address, dryRun)
	im.Code = e.Bytes()
	return im, nil
}

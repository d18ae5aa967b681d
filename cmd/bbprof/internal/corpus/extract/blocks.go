package extract

import (
	"fmt"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/bbprof/bbprof/asm"
)

// demangled returns the source name of a C++ or Rust symbol, and any other name unchanged.
func demangled(symbol string) string {
	if !strings.HasPrefix(symbol, "_") {
		return symbol
	}
	base, suffix, _ := strings.Cut(symbol, ".") // gcc and clang append .cold, .part.0
	if name := demangle.Filter(base); name != base {
		if suffix != "" {
			name += " [." + suffix + "]"
		}
		return name
	}
	return demangle.Filter(symbol)
}

// cut gives out the blocks of a function that was walked, or its loops.
func (e *extraction) cut(f *function) error {
	w := &e.w
	for at := 0; at < w.cut; {
		if w.marks[at]&markStart == 0 {
			at++
			continue
		}
		b := e.blockAt(at)
		if err := e.give(f, b); err != nil {
			return err
		}
		if at = b.next; e.opts.Cut == CutTransfer { // the next leader may lie inside this block
			for at = b.start + int(w.length[b.start]); at < w.cut && w.marks[at]&(markStart|markLeader) != markStart|markLeader; at++ {
			}
		}
	}
	if e.opts.Loops && e.selected {
		return e.giveLoops(f)
	}
	return nil
}

// bounds describes a block of the current function by offsets.
type bounds struct {
	start, end   int      // without the terminator
	next         int      // after the terminator
	last         asm.Step // the terminator; none if its length is 0
	broken       bool     // runs into omitted code
	instructions int
	pads         bool // only padding
}

func (e *extraction) blockAt(start int) bounds {
	w := &e.w
	b := bounds{start: start, pads: true}
	at := start
	for {
		length := int(w.length[at])
		b.pads = b.pads && w.marks[at]&markPads != 0 // nops up to an int3, too
		if w.flow[at] != asm.FlowNext {
			b.end, b.next = at, at+length
			b.last, _ = asm.StepOver(w.code[b.end:b.next])
			return b
		}
		b.instructions++
		at += length
		b.end, b.next = at, at
		switch {
		case at >= len(w.code):
			return b
		case at >= w.cut || w.marks[at]&markStart == 0:
			b.broken = true
			return b
		case w.marks[at]&markLeader != 0 && e.opts.Cut == CutLeader:
			b.pads = false
			return b
		}
	}
}

func (b bounds) terminated() bool { return b.last.Length > 0 }

// loops reports whether the block branches to its own start.
func (b bounds) loops() bool {
	return (b.last.Flow == asm.FlowBranch || b.last.Flow == asm.FlowJump) && b.last.Target == int64(b.start-b.next)
}

func (e *extraction) give(f *function, b bounds) error {
	lo := f.lo + uint64(b.start)
	n := uint64(1)
	if e.counts != nil {
		n = e.executions(f, b)
		if e.selected && e.opts.Cut == CutLeader && !b.broken {
			e.stats.Found += e.counts.between(lo, lo+uint64(b.next-b.start))
		}
	}
	block, wanted := e.within(f, lo, lo+uint64(b.end-b.start))
	if !wanted || n == 0 || b.broken || b.pads || b.instructions == 0 {
		return nil
	}
	if e.counts != nil {
		e.stats.BlockRuns += n
	}
	if block.Instructions, block.Count = b.instructions, n; !e.selected || e.opts.Loops || !e.opts.takes(&block) {
		return nil
	}
	block.Code = e.w.code[b.start:b.end]
	if e.opts.Branches && (b.last.Flow == asm.FlowBranch || b.loops()) { // a jmp, always taken, cannot end copies
		block.Code = e.w.code[b.start:b.next]
	}
	block.Source = e.lines.at(block.Addr)
	if e.opts.Depths {
		if e.depths == nil {
			_, e.depths = e.w.loops()
		}
		block.Depth = e.depths[b.start]
	}
	if b.terminated() {
		block.Terminator = e.terminator(f, b)
		block.InPlace = timed(e.counts, lo, lo+uint64(b.end-b.start))
	}
	return e.handOut(f, &block)
}

// within starts to describe code of a function; ok is false if it is in none of the regions that the file has.
func (e *extraction) within(f *function, lo, hi uint64) (b Block, ok bool) {
	b = Block{File: e.o.name, Function: e.name, Section: printable(f.where.Name), Addr: lo - f.where.base}
	if e.o.regions == nil {
		return b, true
	}
	b.Function, ok = e.o.regionOf(lo, hi)
	return b, ok
}

// takes reports whether a block has as many instructions as were asked for.
func (o *Options) takes(b *Block) bool {
	return b.Instructions >= o.Min && (o.Max == 0 || b.Instructions <= o.Max)
}

func (e *extraction) handOut(f *function, b *Block) error {
	lo := b.Addr + f.where.base
	b.Relocated = f.where.relocated(lo, lo+uint64(len(b.Code)))
	e.stats.Blocks++
	return e.yield(b)
}

// executions returns how often a block ran. With the cut at transfers, a run that enters in the middle counts for
// another block.
func (e *extraction) executions(f *function, b bounds) uint64 {
	w := &e.w
	if !e.counts.exact() {
		return e.counts.between(f.lo+uint64(b.start), f.lo+uint64(b.next))
	}
	at := b.start
	for at < b.end && w.marks[at]&markRepeat != 0 { // counted once for each repetition
		at += int(w.length[at])
	}
	if at == b.next { // repetitions alone
		at = b.start
	}
	n := e.counts.at(f.lo + uint64(at))
	if e.opts.Cut != CutTransfer || b.start == 0 {
		return n
	}
	before := b.start - 1
	for before > 0 && w.marks[before]&markStart == 0 {
		before--
	}
	if before+int(w.length[before]) == b.start && w.flow[before] == asm.FlowNext && w.marks[before]&markRepeat == 0 {
		n -= min(n, e.counts.at(f.lo+uint64(before)))
	}
	return n
}

// terminator returns the text of the transfer that ends a block, with the target's address.
func (e *extraction) terminator(f *function, b bounds) string {
	code := e.w.code[b.end:b.next]
	insts, err := asm.Decode(code)
	if err != nil {
		return "(bad)"
	}
	lo := f.lo + uint64(b.end)
	switch {
	case !direct(b.last.Flow):
		return insts[0].Text()
	case f.where.relocated(lo, lo+uint64(len(code))): // only a linker would know the target
		return insts[0].Mnemonic
	}
	return fmt.Sprintf("%s %#x", insts[0].Mnemonic, f.lo+uint64(b.next)+uint64(b.last.Target)-f.where.base)
}

// direct reports whether a transfer names its target.
func direct(flow asm.Flow) bool {
	return flow == asm.FlowBranch || flow == asm.FlowJump || flow == asm.FlowCall
}

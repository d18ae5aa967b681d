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

func (e *extraction) cut(f *function, name string) error {
	w := &e.w
	e.name, e.depths = name, nil
	e.block = Block{File: e.o.name, Section: printable(f.where.Name)}
	for at := 0; at < w.cut; {
		if w.marks[at]&markStart == 0 {
			at++
			continue
		}
		b := e.blockAt(at)
		if err := e.give(f, b); err != nil {
			return err
		}
		switch {
		case e.opts.Cut == CutTransfer: // the next leader may lie inside this block
			for at += int(w.length[at]); at < w.cut && w.marks[at]&(markStart|markLeader) != markStart|markLeader; at++ {
			}
		default:
			at = b.next
		}
	}
	return nil
}

// bounds describes a block of the current function by offsets.
type bounds struct {
	start, end   int // without the terminator
	next         int // after the terminator
	terminated   bool
	broken       bool // runs into omitted code
	instructions int
	count        int  // executions of an instruction that runs once per block
	pads         bool // only padding
}

func (e *extraction) blockAt(start int) bounds {
	w := &e.w
	b := bounds{start: start, count: -1, pads: true}
	at := start
	for {
		length := int(w.length[at])
		if b.count < 0 && w.marks[at]&markRepeat == 0 {
			b.count = at
		}
		if w.flow[at] != asm.FlowNext {
			b.end, b.next, b.terminated = at, at+length, true
			b.pads = b.pads && w.marks[at]&markPads != 0 // nops up to an int3
			return b
		}
		b.pads = b.pads && w.marks[at]&markPads != 0
		b.instructions++
		at += length
		b.end, b.next = at, at
		switch {
		case at >= len(w.code):
			return b
		case at >= w.cut || w.marks[at]&markStart == 0:
			b.broken = true
			b.pads = false
			return b
		case w.marks[at]&markLeader != 0 && e.opts.Cut == CutLeader:
			b.pads = false
			return b
		}
	}
}

// branchEnd returns the end of a block including its conditional branch, if any. A jmp, always taken, cannot end
// copies.
func (b bounds) branchEnd(code []byte) int {
	if s, err := asm.StepOver(code[b.end:b.next]); err == nil && (s.Flow == asm.FlowBranch || s.Flow == asm.FlowJump && b.loops(code)) {
		return b.next
	}
	return b.end
}

// loops reports whether the block branches to its own start.
func (b bounds) loops(code []byte) bool {
	if !b.terminated {
		return false
	}
	s, err := asm.StepOver(code[b.end:b.next])
	return err == nil && (s.Flow == asm.FlowBranch || s.Flow == asm.FlowJump) && s.Target == int64(b.start-b.next)
}

func (e *extraction) give(f *function, b bounds) error {
	addr := f.lo + uint64(b.start) - f.where.addr + f.where.shown
	n := uint64(1)
	if e.counts != nil {
		n = e.executions(addr, b)
		if e.opts.Cut == CutLeader && !b.broken {
			e.stats.Found += e.counts.between(addr, addr+uint64(b.next-b.start))
		}
	}
	if e.opts.Loops && !b.loops(e.w.code) {
		return nil
	}
	if n == 0 || b.broken || b.pads || b.instructions == 0 && !e.opts.Empty || b.instructions < e.opts.Min || e.opts.Max > 0 && b.instructions > e.opts.Max {
		return nil
	}
	e.block.Function = e.name
	if e.o.regions != nil {
		lo := f.lo + uint64(b.start)
		r := e.o.regionOf(lo, lo+uint64(b.end-b.start))
		if r == nil {
			return nil
		}
		e.block.Function = r.name
	}
	end := b.end
	if (e.opts.Branches || e.opts.Loops) && b.terminated {
		end = b.branchEnd(e.w.code)
	}
	e.block.Code = e.w.code[b.start:end]
	e.block.Addr, e.block.Instructions, e.block.Count = addr, b.instructions, n
	e.block.Source = e.lines.at(addr)
	if e.opts.Loops {
		if e.depths == nil {
			e.depths = e.w.depths()
		}
		e.block.Depth = e.depths[b.start]
	}
	e.block.Terminator, e.block.InPlace = "", Timed{}
	if b.terminated {
		e.block.Terminator = e.terminator(f, b)
		e.block.InPlace = timed(e.counts, addr, addr+uint64(b.end-b.start))
	}
	offset := int(f.lo-f.where.addr) + b.start
	e.block.Relocated = f.where.relocated(offset, offset+end-b.start)
	e.stats.Blocks++
	return e.yield(&e.block)
}

// executions returns how often a block ran. With the cut at transfers, a run that enters in the middle counts for
// another block.
func (e *extraction) executions(addr uint64, b bounds) uint64 {
	w := &e.w
	start := addr - uint64(b.start)
	if !e.counts.exact() {
		return e.counts.between(addr, start+uint64(b.next))
	}
	at := b.count
	if at < 0 {
		at = b.start
	}
	n := e.counts.at(start + uint64(at))
	if e.opts.Cut != CutTransfer || b.start == 0 {
		return n
	}
	for before := b.start - 1; before >= 0 && before >= b.start-longest; before-- {
		if w.marks[before]&markStart == 0 {
			continue
		}
		if before+int(w.length[before]) == b.start && w.flow[before] == asm.FlowNext && w.marks[before]&markRepeat == 0 {
			n -= min(n, e.counts.at(start+uint64(before)))
		}
		break
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
	s, err := asm.StepOver(code)
	if err != nil || s.Flow != asm.FlowBranch && s.Flow != asm.FlowJump && s.Flow != asm.FlowCall {
		return insts[0].Text()
	}
	offset := int(f.lo-f.where.addr) + b.end
	if f.where.relocated(offset, offset+len(code)) { // only a linker would know the target
		return insts[0].Mnemonic
	}
	target := f.lo + uint64(b.next) + uint64(s.Target) - f.where.addr + f.where.shown
	return fmt.Sprintf("%s %#x", insts[0].Mnemonic, target)
}

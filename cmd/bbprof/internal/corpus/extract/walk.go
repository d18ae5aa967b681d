package extract

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Marks of a function's bytes.
const (
	markStart  = 1 << iota // an instruction starts here
	markInside             // its further bytes
	markLeader             // a block starts here
	markPads               // a nop or int3
	markRepeat             // a repeated string instruction
	markReads              // an instruction of bytes that nothing leads to and that read as code
)

// A walker finds the instructions of one function at a time. It follows control flow from the entry and every
// branch target, which reaches only instructions. Bytes that merely follow an unconditional transfer count as code
// if they decode as code from end to end. All slices have one element per byte of the function.
type walker struct {
	o    *object
	code []byte
	lo   uint64

	marks  []uint8
	length []uint8
	flow   []asm.Flow

	work      []int               // offsets to follow
	tables    []uint64            // possible starts of jump tables
	limits    []uint64            // possible table starts of all functions, sorted; nil: find no tables
	indirect  bool                // met an indirect jump
	cut       int                 // bytes from here on are omitted
	outside   func(target uint64) // called with the target of each direct branch out of the function
	unclaimed int                 // bytes not taken for code
}

// walk finds a function's instructions. starts are addresses that control reaches from elsewhere, ran are those of
// executed instructions.
func (w *walker) walk(f *function, starts, ran []uint64) {
	w.code, w.lo = f.bytes(), f.lo
	n := len(w.code)
	w.marks, w.length, w.flow = make([]uint8, n), make([]uint8, n), make([]asm.Flow, n)
	w.tables, w.work = nil, nil
	w.indirect, w.cut, w.unclaimed = false, n, 0
	w.lead(0)
	for _, addr := range starts {
		w.lead(int(addr - w.lo))
	}
	w.drain()
	for _, addr := range ran {
		if at := int(addr - w.lo); at < n && w.marks[at]&(markStart|markInside) == 0 {
			w.lead(at)
			w.drain()
		}
	}
	w.jumpTables()
	w.gaps()
}

// lead starts a block at an offset within the function, unless it is inside an instruction, such as behind a lock prefix.
func (w *walker) lead(at int) {
	if 0 <= at && at < len(w.code) && w.marks[at]&(markLeader|markInside) == 0 {
		w.marks[at] |= markLeader
		w.work = append(w.work, at)
	}
}

func (w *walker) drain() {
	for len(w.work) > 0 {
		at := w.work[len(w.work)-1]
		w.work = w.work[:len(w.work)-1]
		w.follow(at)
	}
}

// follow decodes from an offset until control flow ends or meets decoded code. At an invalid instruction the
// function is omitted from the last transfer on: after a call that never returns there need not be code.
func (w *walker) follow(at int) {
	run := at
	for at < len(w.code) {
		if w.marks[at]&markStart != 0 {
			return
		}
		s, err := asm.StepOver(w.code[at:])
		if err != nil {
			w.cut = min(w.cut, run)
			return
		}
		if !w.claim(at, s) {
			return
		}
		next := at + s.Length
		w.noteTable(at, s)
		if to := next + int(s.Target); direct(s.Flow) && w.outside != nil && (to < 0 || to >= len(w.code)) {
			w.outside(w.lo + uint64(to))
		} else if direct(s.Flow) {
			w.lead(to)
		}
		w.indirect = w.indirect || s.Flow == asm.FlowJumpIndirect
		if s.Flow.Ends() {
			return
		}
		if s.Flow != asm.FlowNext && next < len(w.code) {
			w.marks[next] |= markLeader
			run = next
		}
		at = next
	}
}

// claim marks an instruction's bytes, unless another instruction has some of them.
func (w *walker) claim(at int, s asm.Step) bool {
	for i := at; i < at+s.Length; i++ {
		if w.marks[i]&(markStart|markInside) != 0 {
			return false
		}
	}
	w.marks[at] |= markStart
	for i := at + 1; i < at+s.Length; i++ {
		w.marks[i] = w.marks[i]&^markLeader | markInside // it may have been queued
	}
	if s.Endbr {
		w.marks[at] |= markLeader
	}
	if s.Pads {
		w.marks[at] |= markPads
	}
	if s.Repeats {
		w.marks[at] |= markRepeat
	}
	w.length[at], w.flow[at] = uint8(s.Length), s.Flow
	return true
}

// gaps examines unreachable bytes: padding, data, or targets of indirect jumps.
func (w *walker) gaps() {
	for at := 0; at < w.cut; {
		if w.length[at] != 0 {
			at += int(w.length[at])
			continue
		}
		end := at
		for end < len(w.code) && w.marks[end]&(markStart|markInside) == 0 {
			end++
		}
		if end == at { // bytes of an overlapping instruction
			at++
			continue
		}
		from := w.skipPadding(at, end)
		switch {
		case from == end:
		case w.marks[from]&markReads != 0, w.readsAsCode(from, end): // not again after each of a thousand stubs, as in libGLdispatch
			w.lead(from)
			w.drain()
			w.jumpTables()
		default:
			w.unclaimed += end - from
		}
		if w.length[at] == 0 {
			at = max(from, at+1)
			for at < end && w.length[at] == 0 {
				at++
			}
		}
	}
}

func (w *walker) skipPadding(at, end int) int {
	if isZero(w.code[at:end]) {
		return end
	}
	for at < end {
		s, err := asm.StepOver(w.code[at:end])
		if err != nil || !s.Pads {
			return at
		}
		at += s.Length
	}
	return end
}

// readsAsCode reports whether bytes decode from end to end into user-mode instructions, with no direct branch into
// the middle of one.
func (w *walker) readsAsCode(from, end int) bool {
	starts := make([]bool, end-from)
	var targets []int64
	last := asm.FlowNext
	for at := from; at < end; {
		s, err := asm.StepOver(w.code[at:end])
		if err != nil || s.Length >= 2 && w.code[at] == 0 && w.code[at+1] == 0 { // add [rax], al: zeros are data
			return false
		}
		insts, err := asm.Decode(w.code[at : at+s.Length])
		if err != nil || privileged(insts) {
			return false
		}
		starts[at-from] = true
		next := at + s.Length
		if direct(s.Flow) {
			targets = append(targets, int64(next)+s.Target)
		}
		if at, last = next, s.Flow; last.Ends() {
			at = w.skipPadding(at, end)
		}
	}
	if end == len(w.code) && last == asm.FlowNext { // control would run off the function's end
		return false
	}
	for _, to := range targets {
		switch {
		case to < 0 || to >= int64(len(w.code)):
			if w.o.code(w.lo+uint64(to)) == nil {
				return false
			}
		case to >= int64(from) && to < int64(end):
			if !starts[to-int64(from)] {
				return false
			}
		case w.marks[to]&markInside != 0:
			return false
		}
	}
	for i, start := range starts {
		if start {
			w.marks[from+i] |= markReads
		}
	}
	return true
}

// privileged reports whether an instruction needs ring 0 or an I/O permission. It excludes hlt, which
// the C library puts after calls that must not return.
func privileged(insts []asm.Inst) bool {
	r := asm.Refuse(insts)
	return r != nil && r.Reason == verdict.Privileged && insts[0].Mnemonic != "hlt"
}
